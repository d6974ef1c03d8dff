/** What operators ask and decide (curatorproto/admission.proto): joins, audit, traces, operators. Behind the curator's door. */
export { adminHandlers, type AdminParts } from './handlers.ts';
export { AdminError, adminErrors, type AdminErrorCode } from './errors.ts';
