/**
 * Metrics of programs in Prometheus' text format, served on the loopback address of their machine. Operators get them
 * through a curator.
 */
export { renderNodeMetrics } from './node-metrics.ts';
export { renderMetrics, type MetricFamily } from './render-metrics.ts';
export { machineUsage, type MachineUsage } from './machine-usage.ts';
export { processMetrics, usageOf, type ProcessUsage } from './process-metrics.ts';
export { readPage, serveMetrics, type Page } from './serve-metrics.ts';
