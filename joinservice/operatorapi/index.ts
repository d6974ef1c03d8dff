/** The API for operators (curatorproto/operatorapi.proto): join requests, audit log, traces, operators, keys, owner documents. */
export { operatorApiHandlers } from './operator-api-handlers.ts';
