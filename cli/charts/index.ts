/**
 * Helm charts: which, in which order, from where, and whether again.
 *
 *     configuration ──planCharts──▶ ordered charts ──installCharts──▶ helm, one by one ──▶ checkpoint in the state
 *
 * `flannel/` and `hello/` are our own charts, packed into the bundle.
 */
export { ChartError, chartErrors, type ChartErrorCode } from './errors.ts';
export { installCharts, type InstallOptions, type InstallSummary } from './install-charts.ts';
export { planCharts, type ChartSelection, type PlannedChart } from './plan-charts.ts';
