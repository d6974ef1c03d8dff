import { z } from 'zod';
import { SignerError } from './errors.ts';

const path = z.string().startsWith('/');

/** What the agent tells the signer. Unknown keys are refused: both come from the same version. */
const shape = z.strictObject({
  version: z.literal(1),
  /** Unix socket at which the join service asks. */
  listen: path,
  /** Folder with the cluster's keys, named as in `CONTROL_PLANE_KEYS`. */
  keys: path,
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
