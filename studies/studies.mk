# Runs and pictures of the studies.

# Data and picture of a study: NAME.h5, NAME.d, NAME.png here. Resumes what was stopped.
study: dmft-sweep $(if $(filter reading,$(NAME)),text)
	PYTHON=$(PYTHON) python/with studies/gallery.py $(NAME)

# All of them: data in build/gallery, pictures in docs/gallery, docs/gallery.md; and studies/kept, from
# which make pictures draws them again in seconds, or NAME=... alone.
gallery: dmft-sweep text
	PYTHON=$(PYTHON) python/with studies/gallery.py --all

pictures:
	PYTHON=$(PYTHON) python/with studies/gallery.py --kept $(NAME)

.PHONY: study gallery pictures
