import { isIP } from 'node:net';
import { z } from 'zod';
import type { Variant } from '../../internal/attestation/index.ts';
import { VARIANTS } from '../../internal/attestation/policy/index.ts';
import { JoinserviceError } from './errors.ts';

const path = z.string().startsWith('/');

/** What the agent tells this program. Unknown keys are refused: both come from the same version. */
const shape = z.strictObject({
  version: z.literal(1),
  clusterId: z.string().min(1),
  nodeId: z.string().min(1),
  listen: z.strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535) }),
  /** Raw Ed25519 keys of the first owners, base64: from the machine's provisioning. Absent: no document counts. */
  ownerKeys: z.array(z.base64()).optional(),
  clusterCaFile: path,
  /** This node's certificate, which serves; and its key. */
  certFile: path,
  keyFile: path,
  /** On the loopback, where this program tells what it counts; default: `PORTS.joinserviceMetrics`. */
  metricsPort: z.int().min(1).max(65535).optional(),
  /** Stores of the bundle's blobs that this program may read; other members fetch from here. */
  stores: z.array(path),
  /** Admission of machines, on a port of its own. Absent: this program is the curator only. */
  join: z
    .strictObject({
      listen: z.strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535) }),
      /** Where other nodes reach this one; no port. */
      address: z.string().refine((text) => isIP(text) !== 0, 'an IP address'),
      /** The agent's socket, and the kind of evidence that this machine has. */
      evidence: z.strictObject({ socket: path, variant: z.enum(VARIANTS as [Variant, ...Variant[]]) }),
      /** The signer's socket, and the one at which it finds its way to etcd. */
      signer: z.strictObject({ socket: path, etcdPipe: path }),
    })
    .optional(),
  /** Whether kubelets are members, for the API server of this node: on the loopback. */
  authorize: z
    .strictObject({
      port: z.int().min(0).max(65535),
      /** Whose clients may ask: the authority that signed the API server's certificate for its etcd. */
      callersCaFile: path,
    })
    .optional(),
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
