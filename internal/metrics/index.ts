/**
 * Metrics of programs (a port) in Prometheus' text format, served on the loopback address of their machine. Operators get them through
 * a curator.
 */
export { mergeMetrics } from './merge-metrics.ts';
export { renderMetrics, type MetricFamily } from './render-metrics.ts';
export { processMetrics, usageOf, type ProcessUsage } from './process-metrics.ts';
export { readMetrics, serveMetrics } from './serve-metrics.ts';
