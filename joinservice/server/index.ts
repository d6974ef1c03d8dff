/** The composition root of the join service: reads the configuration, opens the listeners. */
export { parseJoinserviceConfig } from './joinservice-config.ts';
export { serve } from './serve.ts';
export {} from './run-metrics.ts';
