/** The composition root of the join service: reads the configuration, opens the listeners. */
export { parseJoinserviceConfig, type JoinserviceConfig } from './joinservice-config.ts';
export type { ServePorts } from './run-join.ts';
export { serve } from './serve.ts';
export {} from './run-metrics.ts';
