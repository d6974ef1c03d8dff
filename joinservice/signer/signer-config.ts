import { isIP } from 'node:net';
import { z } from 'zod';
import { SignerError } from './errors.ts';

const path = z.string().startsWith('/');
const ip = z.string().refine((text) => isIP(text) !== 0, 'an IP address');
const OWNER_KEY_BYTES = 32;
const ownerKey = z
  .base64()
  .refine((text) => Buffer.from(text, 'base64').length === OWNER_KEY_BYTES, 'the base64 text of 32 bytes');

/** What the agent tells the signer. Unknown keys are refused: both come from the same version. */
const shape = z.strictObject({
  version: z.literal(1),
  /** Unix socket at which the join service asks. */
  listen: path,
  /** Directory with the cluster's keys, named as in `CONTROL_PLANE_KEYS`. */
  keys: path,
  /** Directory in which the signer keeps what it has seen. */
  memory: path,
  /** What etcd has no say in: written by the agent from its provisioning and its membership. */
  cluster: z.strictObject({
    clusterId: z.string().min(1),
    epoch: z.int().positive(),
    /** Raw Ed25519, base64: the first owners. */
    ownerKeys: z.tuple([ownerKey], ownerKey),
    /** The node that this signer runs on. */
    own: z.strictObject({ nodeId: z.string().min(1), name: z.string().min(1), address: ip }),
    /** Where no node can be. */
    networks: z.strictObject({
      serviceSubnet: z.string().min(1),
      podSubnet: z.string().min(1),
      apiServerSans: z.array(z.string()),
      apiEndpoint: z.string().min(1).optional(),
    }),
  }),
  etcd: z.strictObject({
    /** "unix:/path": a pipe to the member of this machine; TLS runs through it. */
    endpoint: z.string().startsWith('unix:/'),
    caFile: path,
    certFile: path,
    keyFile: path,
  }),
});

export type SignerConfig = Readonly<z.infer<typeof shape>>;

export function parseSignerConfig(source: string, text: string): SignerConfig {
  try {
    return Object.freeze(shape.parse(JSON.parse(text)));
  } catch (error) {
    const why = error instanceof z.ZodError ? new Error(z.prettifyError(error).replaceAll('\n', ' ')) : error;
    throw new SignerError('signer-config-invalid', `reading ${source}`, { cause: why });
  }
}
