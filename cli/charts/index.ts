/**
 * Installs the Helm charts of the configuration, in order of their dependencies, when their inputs changed.
 *
 *     cluster.yaml ──planCharts──▶ ordered charts ──installCharts──▶ helm, one by one ──▶ checkpoint in state.json
 *
 * `flannel/`, `hello/` and `monitoring/` are charts of this project; the bundle contains them.
 */
export { installCharts } from './install-charts.ts';
export { findLocalChart, readChartFiles, writeRestoredChart } from './local-charts.ts';
export {
  MAX_CHARTS_BYTES,
  packCharts,
  packedChartShape,
  unpackCharts,
  type PackedChart,
} from './packed-charts.ts';
export { readOwnInputs } from './locate-chart.ts';
export { podReason } from './pod-problems.ts';
export { planCharts, type ChartSelection } from './plan-charts.ts';
