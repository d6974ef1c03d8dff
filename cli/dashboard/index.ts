/**
 * `cluster dashboard`: a live view of the cluster, on the terminal or as a page on this machine.
 *
 *     collect/    reads each source by itself, with the credentials of the caller
 *     model/      what was read, and one snapshot of it, judged once for both views
 *     terminal/   a snapshot as lines (pure), and the driver of the terminal
 *     web/        a snapshot as a page, and the server of the page
 */
export { runDashboard, type DashboardOptions } from './run-dashboard.ts';
export { dashboardErrors } from './errors.ts';
