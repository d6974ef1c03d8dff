import { defineErrors, errorClass, fault } from '../../internal/errors/index.ts';

/** Errors of `cluster dashboard`. */
export const dashboardErrors = defineErrors({
  'dashboard-no-terminal': fault.operator.precondition(
    'The dashboard draws on a terminal, and keyboard or output are none, or the terminal cannot move its cursor.',
    'Use `cluster status --watch` for plain text, or `cluster dashboard --web` for a page in a browser.',
  ),
  'dashboard-port-taken': fault.operator.precondition(
    'Another program listens on the port for the page.',
    'Choose another port with --port, or leave it out for a free one.',
  ),
});

/** A failure of `cluster dashboard`. */
export class DashboardError extends errorClass(dashboardErrors) {}
