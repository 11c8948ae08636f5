/* Whether two numbers of sites give the same limit. */
#pragma once

#include "models/engine/net.h"

/* Two setups of a limit that differ by their numbers of sites alone must have the same operations,
 * and selections must take the same shares of sites. Else CODE_INPUT, with what the
 * author of the program can do. */
int alike_check(const struct net_setup *setup, const struct net_setup *other, struct err *err);
