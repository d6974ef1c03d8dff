/** The composition of the join service: configuration in, listeners out. */
export { parseJoinserviceConfig, type JoinserviceConfig } from './config.ts';
export { JoinserviceError, joinserviceErrors, type JoinserviceErrorCode } from './errors.ts';
export { serve, type ServePorts } from './serve.ts';
export { METRICS_PORT } from './run-metrics.ts';
