import { z } from 'zod';
import { JoinserviceError } from './errors.ts';

const path = z.string().startsWith('/');

/** What the agent tells this program. Unknown keys are refused: both come from the same version. */
const shape = z.strictObject({
  version: z.literal(1),
  clusterId: z.string().min(1),
  nodeId: z.string().min(1),
  listen: z.strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535) }),
  clusterCaFile: path,
  /** This node's certificate, which serves; and its key. */
  certFile: path,
  keyFile: path,
  /** Stores of the bundle's blobs that this program may read; other members fetch from here. */
  stores: z.array(path),
  etcd: z.strictObject({
    /** "host:port", the member beside this curator first. */
    endpoints: z.tuple([z.string().min(1)], z.string().min(1)),
    caFile: path,
    certFile: path,
    keyFile: path,
    metricsUrl: z.url(),
  }),
});

export type JoinserviceConfig = Readonly<z.infer<typeof shape>>;

export function parseJoinserviceConfig(source: string, text: string): JoinserviceConfig {
  try {
    return Object.freeze(shape.parse(JSON.parse(text)));
  } catch (error) {
    const why = error instanceof z.ZodError ? new Error(z.prettifyError(error).replaceAll('\n', ' ')) : error;
    throw new JoinserviceError('joinservice-config-invalid', `reading ${source}`, { cause: why });
  }
}
