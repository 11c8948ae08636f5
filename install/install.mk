# What is installed: programs, manual, libdmft with headers and pkg-config file, completion, examples.
# DESTDIR is put in front of every path; PREFIX is where the files will lie. Both are taken literally, and
# may have blanks and $ in them.
SONAME := libdmft.so.0
RELEASE := $(firstword $(subst +, ,$(VERSION)))
LIBRARY := $(BUILD)/libdmft.so.$(RELEASE)
# Of the builder of networks, with what they include, as the compiler lists it.
HEADERS = $(sort $(filter %.h,$(shell $(CC) -std=c17 -MM -I. models/language/program.h models/networks/settings.h models/parts/*.h)))
QUOTED = '$(subst ','\'',$(1))'
AT = $(call QUOTED,$(value DESTDIR)$(value PREFIX))
# As the replacement of a command s of sed.
PC_PREFIX = $$(printf '%s' $(call QUOTED,$(value PREFIX)) | sed 's/[\\&|]/\\&/g')

# dmft-sweep, which runs the dmft-solve beside it, and dmft-data are of the Python package.
SCRIPT = @mkdir -p $(@D); sed "1s|.*|\#!$$(NEED='h5py, numpy, scipy' PYTHON='$(PYTHON)' python/with -c \
         'import sys; print(sys.executable)' 2>/dev/null || echo /usr/bin/env python3)|" $< > $@ && chmod +x $@
$(BUILD)/dmft-sweep $(BUILD)/dmft-data: python/dmft-sweep $(BUILD)/python | $(BUILD)/dmft-solve
	$(SCRIPT)
$(BUILD)/python: FORCE
	$(call STAMP,$(PYTHON))

lib: $(LIBRARY)
$(LIBRARY): $(OBJECTS) install/libdmft.map $(BUILD)/objects
	@echo '  LD $@'
	@$(CC) $(OPT) -fopenmp -shared -Wl,-soname,$(SONAME) -Wl,--version-script=install/libdmft.map \
	    -Wl,--no-undefined $(filter %.o,$^) $(LDLIBS) -o $@
	@ln -sf $(@F) $(BUILD)/$(SONAME)
	@ln -sf $(@F) $(BUILD)/libdmft.so

# From the list of keys in --help.
COMPLETION := $(BUILD)/completion/dmft-solve $(BUILD)/completion/_dmft-solve
$(BUILD)/completion/dmft-solve: install/completion.sh install/needs.sh $(BUILD)/dmft-solve
	@mkdir -p $(@D)
	@sh install/completion.sh bash $(BUILD)/dmft-solve > $@.partial && mv $@.partial $@
$(BUILD)/completion/_dmft-solve: install/completion.sh install/needs.sh $(BUILD)/dmft-solve
	@mkdir -p $(@D)
	@sh install/completion.sh zsh $(BUILD)/dmft-solve > $@.partial && mv $@.partial $@

PACKAGE = $(filter-out %.pyc,$(wildcard python/dmft/*.* python/dmft/*/*.* python/dmft/*/*/*.*))
# Runs of the library have no ranks.
install: all $(COMPLETION) $(if $(MPI),,install-library)
	install -D -t $(AT)/bin $(PROGRAMS)
	for d in $(sort $(dir $(PACKAGE))); do install -d $(AT)/share/dmft-solve/$$d && \
	    install -m 644 $$(printf '%s\n' $(PACKAGE) | grep "^$$d[^/]*$$") $(AT)/share/dmft-solve/$$d || exit 1; done
	install -D -m 644 -t $(AT)/share/man/man1 $(wildcard docs/man/*.1)
	install -D -m 644 $(BUILD)/completion/dmft-solve $(AT)/share/bash-completion/completions/dmft-solve
	for p in dmft-sweep dmft-compare; do ln -sf dmft-solve $(AT)/share/bash-completion/completions/$$p || exit 1; done
	install -D -m 644 $(BUILD)/completion/_dmft-solve $(AT)/share/zsh/site-functions/_dmft-solve
	install -D -m 644 -t $(AT)/share/doc/dmft-solve README.md CHANGELOG.md CITATION.cff
	install -D -m 644 -t $(AT)/share/doc/dmft-solve/docs $(wildcard docs/*.md)
	install -D -m 644 -t $(AT)/share/doc/dmft-solve/docs/theory $(wildcard docs/theory/*.md)
	install -D -m 644 -t $(AT)/share/doc/dmft-solve/docs/coverage $(wildcard docs/coverage/*.md)
	install -D -m 644 -t $(AT)/share/doc/dmft-solve/data $(wildcard data/*.ini data/*.h5)
	install -D -m 644 -t $(AT)/share/doc/dmft-solve/examples $(wildcard examples/*.*)
	install -D -m 644 -t $(AT)/share/doc/dmft-solve/examples/torch $(wildcard examples/torch/*.*)
	install -D -m 644 -t $(AT)/share/doc/dmft-solve/studies $(wildcard studies/*.ini)

install-library: $(LIBRARY)
	install -D -m 644 -t $(AT)/lib $(LIBRARY)
	ln -sf $(notdir $(LIBRARY)) $(AT)/lib/$(SONAME)
	ln -sf $(SONAME) $(AT)/lib/libdmft.so
	install -D -m 644 include/dmft.h $(AT)/include/dmft.h
	[ -n '$(firstword $(HEADERS))' ] # $(CC) lists them
	for h in $(HEADERS); do install -D -m 644 $$h $(AT)/include/dmft/$$h || exit 1; done
	mkdir -p $(AT)/lib/pkgconfig
	sed "s|@PREFIX@|$(PC_PREFIX)|; s|@VERSION@|$(RELEASE)|" install/dmft.pc.in > $(AT)/lib/pkgconfig/dmft.pc

uninstall:
	cd $(AT) && rm -f $(addprefix bin/,$(PROGRAMS)) $(addprefix share/man/man1/,$(notdir $(wildcard docs/man/*.1))) \
	    $(addprefix share/bash-completion/completions/,$(PROGRAMS)) lib/libdmft.so* lib/pkgconfig/dmft.pc \
	    include/dmft.h share/zsh/site-functions/_dmft-solve && rm -rf include/dmft share/dmft-solve share/doc/dmft-solve

# build/dmft-solve_VERSION_ARCH.deb; dpkg-dev lists the libraries it depends on.
# With MPI=1 it is dmft-solve-mpi, in the place of dmft-solve, without the library.
deb: all $(if $(MPI),,$(LIBRARY)) $(COMPLETION)
	@command -v dpkg-shlibdeps >/dev/null || { $(call INSTALL,dpkg-dev); }
	@sh install/deb.sh $(BUILD) $(RELEASE) dmft-solve$(if $(MPI),-mpi)

# build/wheel/dmft-*.whl: the Python package with the programs and their libraries inside.
wheel: all
	@PYTHON='$(PYTHON)' sh install/wheel.sh $(BUILD)

# build/site: the documents as pages with a search and formulas, by mkdocs.
site:
	@sh install/site.sh --needs 2>/dev/null || { $(call INSTALL,mkdocs-material python3-pymdownx libjs-katex); }
	@sh install/site.sh build

.PHONY: lib install install-library uninstall deb wheel site
