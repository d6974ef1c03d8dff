import { isIP } from 'node:net';
import { z } from 'zod';

const MAX_CONTROL_PLANES = 16;
/** As long as the CA in a ticket may be. */
const MAX_PEM_CHARS = 16 * 1024;
const MAX_HOST_CHARS = 64;

/** Where a machine asks for the cluster share of its state disk. It is in the record, whose MAC the machine verifies before it asks. */
export interface ShareSource {
  /** 32 hex digits. */
  readonly clusterId: string;
  /** The cluster CAs that prove a join service, a PEM bundle, and the generation of the shared keys to which they belong. */
  readonly clusterCaPem: string;
  readonly caGeneration: number;
  /** The control planes when the record was made. */
  readonly controlPlanes: readonly { readonly nodeId: string; readonly host: string }[];
}

const controlPlaneSchema = z.strictObject({
  nodeId: z.string().regex(/^[0-9a-z-]{1,64}$/),
  host: z
    .string()
    .max(MAX_HOST_CHARS)
    .refine((host) => isIP(host) !== 0),
});

/** The form of a source in a record. */
export const shareSourceSchema: z.ZodType<ShareSource> = z.strictObject({
  clusterId: z.string().regex(/^[0-9a-f]{32}$/),
  clusterCaPem: z.string().min(1).max(MAX_PEM_CHARS),
  caGeneration: z.int().positive(),
  controlPlanes: z.array(controlPlaneSchema).min(1).max(MAX_CONTROL_PLANES),
});

/** The control planes of a list that fit into a record: those with an address, because a closed machine resolves no names. */
export function recordableControlPlanes(
  known: readonly { readonly nodeId: string; readonly host: string }[],
): ShareSource['controlPlanes'] {
  const fitting = known.flatMap(({ nodeId, host }) => {
    const parsed = controlPlaneSchema.safeParse({ nodeId, host });
    return parsed.success ? [parsed.data] : [];
  });
  return fitting.slice(0, MAX_CONTROL_PLANES);
}

/** Whether two sources have the same content, in any order of the control planes. */
export function isSameSource(one: ShareSource, other: ShareSource): boolean {
  const text = ({ clusterId, clusterCaPem, caGeneration, controlPlanes }: ShareSource): string => {
    const sorted = controlPlanes.map(({ nodeId, host }) => `${nodeId} ${host}`).sort();
    return JSON.stringify([clusterId, clusterCaPem, caGeneration, sorted]);
  };
  return text(one) === text(other);
}
