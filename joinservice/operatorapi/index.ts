/** What operators ask and decide (curatorproto/admission.proto): joins, audit, traces, operators. Behind the curator's door. */
export { operatorApiHandlers, type OperatorApiParts } from './operator-api-handlers.ts';
export { OperatorApiError, operatorApiErrors, type OperatorApiErrorCode } from './errors.ts';
