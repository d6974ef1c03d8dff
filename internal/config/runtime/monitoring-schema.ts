import { z } from 'zod';

/** `monitoring:` of `cluster.yaml`. May change while the cluster runs. */
export const monitoringSchema = z
  .strictObject({
    exporter: z
      .boolean()
      .default(false)
      .describe(
        'Each node serves its metrics on port 9097, to holders of a Kubernetes token that may `get` the path /metrics.',
      ),
  })
  .describe('Metrics of the nodes for Prometheus (docs/monitoring.md).');

/** The parsed section. */
export type MonitoringConfig = z.output<typeof monitoringSchema>;
