/**
 * Domain layer: how fast a disk or a database fills, from measurements over days.
 *
 * A node keeps a `GrowthHistory` of each (bootstrapper/nodestatus) and exports what `growthOf()` makes of it; `cluster doctor --at` says when
 * a limit is reached at this growth (internal/doctor).
 */
export {
  addMeasurement,
  GROWTH_MIN_MS,
  growthOf,
  MEASURE_EVERY_MS,
  shiftHistory,
  type Growth,
  type GrowthHistory,
  type GrowthSubject,
  type Measured,
  type SavedGrowth,
} from './growth-history.ts';
