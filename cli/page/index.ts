/**
 * Pages in one file for a browser: templates that escape every text, a policy that allows nothing from elsewhere, and plots
 * as SVG. Used by `cluster dashboard --web` and `cluster explain --html`.
 */
export { contentPolicy, renderDocument } from './document.ts';
export { html, type Html } from './html.ts';
export { joinPlot, lineChart, stripPlot, tileMap, timeLinePlot, type PlotTone } from './plots.ts';
