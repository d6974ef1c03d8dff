import { isIP } from 'node:net';
import { z } from 'zod';
import { parseProgramConfig } from '../../internal/config/index.ts';
import { SignerError } from './errors.ts';

const path = z.string().startsWith('/');
const ip = z.string().refine((text) => isIP(text) !== 0, 'an IP address');
const OWNER_KEY_BYTES = 32;
const ownerKey = z
  .base64()
  .refine((text) => Buffer.from(text, 'base64').length === OWNER_KEY_BYTES, 'the base64 text of 32 bytes');

/** The configuration that the agent writes. Unknown keys are refused, since both programs are of one version. */
const shape = z.strictObject({
  version: z.literal(1),
  /** Unix socket for the join service. */
  listen: path,
  /** Directory with the keys of the cluster, named as in `CONTROL_PLANE_KEYS`. */
  keys: path,
  /** Directory in which the signer records the owner documents and epochs that it has seen. */
  memory: path,
  /** Facts that must not come from etcd: the agent writes them from its provisioning and membership. */
  cluster: z.strictObject({
    clusterId: z.string().min(1),
    epoch: z.int().positive(),
    /** Documents signed before this time give nobody anything new. Set on a machine that found an old copy of its disk. */
    signedAfterMs: z.int().positive().optional(),
    /** Raw Ed25519 keys of the first owners, base64. */
    ownerKeys: z.tuple([ownerKey], ownerKey),
    /** The node that this signer runs on. */
    own: z.strictObject({ nodeId: z.string().min(1), name: z.string().min(1), address: ip }),
    /** Networks in which no node can be. */
    networks: z.strictObject({
      serviceSubnet: z.string().min(1),
      podSubnet: z.string().min(1),
      apiServerSans: z.array(z.string()),
      apiEndpoint: z.string().min(1).optional(),
    }),
  }),
  etcd: z.strictObject({
    /** "unix:/path" of the proxy to the etcd member of this machine; TLS runs through it. */
    endpoint: z.string().startsWith('unix:/'),
    caFile: path,
    certFile: path,
    keyFile: path,
  }),
});

/** The parsed configuration. */
export type SignerConfig = Readonly<z.infer<typeof shape>>;

/**
 * Parses a configuration.
 * @param source its path, for messages
 * @throws SignerError `signer-config-invalid`
 */
export function parseSignerConfig(source: string, text: string): SignerConfig {
  try {
    return parseProgramConfig(shape, text);
  } catch (error) {
    throw new SignerError('signer-config-invalid', `reading ${source}`, { cause: error });
  }
}
