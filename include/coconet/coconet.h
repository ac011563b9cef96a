// Everything an application needs.
#pragma once

#include "coconet/checkpoint.h"
#include "coconet/config.h"
#include "coconet/custom_op.h"
#include "coconet/dtype.h"
#include "coconet/error.h"
#include "coconet/executable.h"
#include "coconet/log.h"
#include "coconet/mesh.h"
#include "coconet/options.h"
#include "coconet/program.h"
#include "coconet/programs.h"
#include "coconet/schedule.h"
#include "coconet/scheduler.h"
#include "coconet/version.h"
#include "coconet/world.h"
