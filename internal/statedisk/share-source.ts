import { isIP } from 'node:net';
import { z } from 'zod';
import { parseEndpoint } from '../endpoint/index.ts';

const MAX_CONTROL_PLANES = 16;
/** As long as the CA in a ticket may be. */
const MAX_PEM_CHARS = 16 * 1024;
const MAX_HOST_CHARS = 64;
const MAX_ENDPOINTS = 16;
/** Two that agreed at the move, and two from before. */
const MAX_PROVEN = 4;
const MAX_ENDPOINT_CHARS = 260;

/** Where a machine asks for the cluster share of its state disk. It is in the record, whose MAC the machine verifies before it asks. */
export interface ShareSource {
  /** 32 hex digits. */
  readonly clusterId: string;
  /** The cluster CAs that prove a join service, a PEM bundle, and the generation of the shared keys to which they belong. */
  readonly clusterCaPem: string;
  readonly caGeneration: number;
  /** The newest owner documents that this machine had accepted: a closed machine takes no older ones. */
  readonly floors: ShareFloors;
  /** The control planes when the record was made. */
  readonly controlPlanes: readonly { readonly nodeId: string; readonly host: string }[];
  /** Endpoints beside them, as "host:port": those that operators set on the machine, and relays. */
  readonly endpoints: readonly string[];
  /** Endpoints that gave the share when this record or the one before was made, newest first. No list of a curator displaces them. */
  readonly proven: readonly string[];
}

/** The newest documents of each kind, and when the machine found an old copy of its disk. */
export interface ShareFloors {
  readonly owners?: KnownDocument | undefined;
  readonly keys?: KnownDocument | undefined;
  readonly signedAfterMs?: number | undefined;
}

/** A `Floor` of internal/ownerdocument, which reads the configuration and so, at last, this directory. */
interface KnownDocument {
  readonly serial: number;
  readonly sha256?: string | undefined;
}

/** What a machine knows by itself. The endpoints that gave the share are added by who asks them. */
export type KnownSource = Omit<ShareSource, 'proven'>;

const controlPlaneSchema = z.strictObject({
  nodeId: z.string().regex(/^[0-9a-z-]{1,64}$/),
  host: z
    .string()
    .max(MAX_HOST_CHARS)
    .refine((host) => isIP(host) !== 0),
});

const floorSchema = z.strictObject({
  serial: z.int().nonnegative(),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});
const endpointsSchema = (most: number) =>
  z
    .array(
      z
        .string()
        .max(MAX_ENDPOINT_CHARS)
        .refine((text) => parseEndpoint(text, 1) === text),
    )
    .max(most);

/** The form of a source in a record. */
export const shareSourceSchema: z.ZodType<ShareSource> = z.strictObject({
  clusterId: z.string().regex(/^[0-9a-f]{32}$/),
  clusterCaPem: z.string().min(1).max(MAX_PEM_CHARS),
  caGeneration: z.int().positive(),
  floors: z.strictObject({
    owners: floorSchema.optional(),
    keys: floorSchema.optional(),
    signedAfterMs: z.number().optional(),
  }),
  controlPlanes: z.array(controlPlaneSchema).min(1).max(MAX_CONTROL_PLANES),
  endpoints: endpointsSchema(MAX_ENDPOINTS),
  proven: endpointsSchema(MAX_PROVEN),
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

/** Endpoints that fit into a record, each once: "host:port" with a name or an address. */
export function recordableEndpoints(texts: readonly string[]): ShareSource['endpoints'] {
  const schema = endpointsSchema(1);
  return [...new Set(texts)].filter((text) => schema.safeParse([text]).success).slice(0, MAX_ENDPOINTS);
}

/** A source with the endpoints that have given the share now, and those that gave it before. */
export function provenSource(
  source: KnownSource,
  { now, before }: { readonly now: readonly string[]; readonly before: readonly string[] },
): ShareSource {
  return { ...source, proven: recordableEndpoints([...now, ...before]).slice(0, MAX_PROVEN) };
}

/** Whether two sources have the same content, in any order of the control planes. Which of them gave the share does not count. */
export function isSameSource(one: KnownSource, other: KnownSource): boolean {
  const text = (source: KnownSource): string => {
    const { clusterId, clusterCaPem, caGeneration, floors, controlPlanes, endpoints } = source;
    const sorted = controlPlanes.map(({ nodeId, host }) => `${nodeId} ${host}`).sort();
    const { owners, keys, signedAfterMs } = floors;
    const serials = [owners, keys].map((floor) => [floor?.serial, floor?.sha256]);
    return JSON.stringify([clusterId, clusterCaPem, caGeneration, serials, signedAfterMs, sorted, endpoints]);
  };
  return text(one) === text(other);
}
