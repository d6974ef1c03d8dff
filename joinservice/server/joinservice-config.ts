import { isIP } from 'node:net';
import { z } from 'zod';
import { VARIANTS } from '../../internal/attestation/index.ts';
import { parseProgramConfig } from '../../internal/config/index.ts';
import { JoinserviceError } from './errors.ts';

const path = z.string().startsWith('/');

/** The configuration that the agent writes. Unknown keys are refused, since both programs are of one version. */
const shape = z.strictObject({
  version: z.literal(1),
  clusterId: z.string().min(1),
  nodeId: z.string().min(1),
  listen: z.strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535) }),
  /** Raw Ed25519 keys of the first owners, base64, from the provisioning of the machine. Absent: no owner document is valid. */
  ownerKeys: z.array(z.base64()).optional(),
  clusterCaFile: path,
  /** The node certificate, used as server certificate, and its key. */
  certFile: path,
  keyFile: path,
  /** Port for metrics on the loopback; `PORTS.joinserviceMetrics` by default. */
  metricsPort: z.int().min(1).max(65535).optional(),
  /** Directories with the blobs of the bundle, which other members fetch. */
  stores: z.array(path),
  /**
   * Settings of the join service, which listens on its own port. Without them this program is only the
   * curator.
   */
  join: z
    .strictObject({
      listen: z.strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535) }),
      /** The address at which other nodes reach this node, without a port. */
      address: z.string().refine((text) => isIP(text) !== 0, 'an IP address'),
      /** The socket of the agent for evidence, and the variant of this machine. */
      evidence: z.strictObject({ socket: path, variant: z.enum(VARIANTS) }),
      /** Two sockets: one of the signer, and one through which the signer reaches etcd. */
      signer: z.strictObject({ socket: path, etcdPipe: path }),
    })
    .optional(),
  /** The authorization webhook for the API server of this node, on the loopback. */
  authorize: z
    .strictObject({
      port: z.int().min(0).max(65535),
      /** The CA of the clients: it issued the etcd client certificate of the API server. */
      callersCaFile: path,
    })
    .optional(),
  etcd: z.strictObject({
    /** "host:port", the member on this node first. */
    endpoints: z.tuple([z.string().min(1)], z.string().min(1)),
    caFile: path,
    certFile: path,
    keyFile: path,
    metricsUrl: z.url(),
  }),
});

/** The parsed configuration. */
export type JoinserviceConfig = Readonly<z.infer<typeof shape>>;

/**
 * Parses a configuration.
 * @param source its path, for messages
 * @throws JoinserviceError `joinservice-config-invalid`
 */
export function parseJoinserviceConfig(source: string, text: string): JoinserviceConfig {
  try {
    return parseProgramConfig(shape, text);
  } catch (error) {
    throw new JoinserviceError('joinservice-config-invalid', `reading ${source}`, { cause: error });
  }
}
