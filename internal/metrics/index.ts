/**
 * Port: what programs count, in Prometheus' text format, answered on the loopback of their machine. Nobody else reaches
 * it there; operators get it through a curator.
 */
export { mergeMetrics } from './merge-metrics.ts';
export { renderMetrics, type MetricFamily, type MetricSample } from './render-metrics.ts';
export { processMetrics, type ProcessUsage } from './process-metrics.ts';
export { readMetrics, serveMetrics } from './serve-metrics.ts';
