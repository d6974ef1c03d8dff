import { isIP } from 'node:net';
import { z } from 'zod';
import { DEFAULT_LOCK_PCR } from '../attestation/index.ts';
import { ROLES } from '../role/index.ts';
import { attestationSchema } from './attestation-schema.ts';
import { endpointFrom } from './endpoint.ts';
import { ConfigError } from './errors.ts';

/** Where a machine finds what it was provisioned with; 0600. */
export const PROVISIONING_PATH = '/etc/cluster/provisioning.json';
export const MAX_PROVISIONING_BYTES = 64 * 1024;
const JOIN_PORT = 9090;

const absolutePath = z.string().regex(/^\/[^\0]*$/, 'an absolute path');
const ed25519Key = z.string().refine(
  // One spelling per key: what decodes but is not what we would write is a typing error.
  (text) =>
    Buffer.from(text, 'base64').length === 32 && Buffer.from(text, 'base64').toString('base64') === text,
  'the base64 of a raw 32-byte Ed25519 public key',
);

/** PCRs of the boot chain and of the node lock; 16 and 23 are anybody's to reset. */
const register = z.int().min(0).max(15);
const registers = {
  /** Shows which cluster the machine is bound to: one that nothing extends during boot. */
  lockPcr: register.min(8).default(DEFAULT_LOCK_PCR),
  /**
   * PCRs that tell the agent's software: its attestation key works only while they are as they were when it was made.
   * 7 (Secure Boot) survives updates; `measured` machines add what their boot loader measures the agent into.
   */
  sealedPcrs: z.array(register).min(1).default([7]),
};

const schema = z.strictObject({
  version: z.literal(1),
  platform: z.enum(['local', 'metal']),
  /** Who may make this machine part of a cluster. Never empty: nobody would be everybody. */
  ownerKeys: z.tuple([ed25519Key], ed25519Key),
  /**
   * The one cluster that it is for, where its owners have several or their key alone is not to decide: its id, and SHA-256
   * of the DER of its CA. Only what lets the machine in for the first time is held to it.
   */
  cluster: z
    .strictObject({
      id: z.string().regex(/^[0-9a-f]{32}$/, '32 lower-case hex digits'),
      caSha256: z.string().regex(/^[0-9a-f]{64}$/, '64 lower-case hex digits'),
    })
    .optional(),
  tpm: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('none') }),
    z.strictObject({ kind: z.literal('device'), path: absolutePath, ...registers }),
    z.strictObject({ kind: z.literal('socket'), path: absolutePath, ...registers }),
  ]),
  /** A confidential processor whose reports this machine shows, together with its TPM if it has one. */
  processor: z.enum(['none', 'sev-snp', 'tdx']).default('none'),
  seedStores: z.array(absolutePath).default([]),
  nodeName: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'a DNS label')
    .optional(),
  address: z
    .string()
    .refine((text) => isIP(text) !== 0, 'an IP address')
    .optional(),
  containerRuntime: z.strictObject({ restrictOomScoreAdj: z.boolean().optional() }).default({}),
  kubelet: z.strictObject({ failCgroupV1: z.boolean().optional() }).default({}),
  joinEndpoints: z
    .array(
      z
        .string()
        .refine((text) => endpointFrom(text, JOIN_PORT) !== undefined, 'an address with or without a port'),
    )
    .default([]),
  /** What it would like to be; it gets what the cluster's policy says, and is refused where it wishes for more. */
  wantedRoles: z.array(z.enum(ROLES)).default([]),
  /** A service of the machine's own network that knows `joinEndpoints`. */
  metadata: z.strictObject({ kind: z.literal('http'), url: z.url({ protocol: /^https?$/ }) }).optional(),
  /** What is asked of the cluster's own evidence, as in `cluster.yaml`. Without it the owner's signature alone decides. */
  attestation: attestationSchema.optional(),
});

export type Provisioning = z.output<typeof schema>;
export type PinnedCluster = NonNullable<Provisioning['cluster']>;

/**
 * Parses `/etc/cluster/provisioning.json`.
 * @throws ConfigError `config-provisioning-invalid`: every problem with its path in the file
 */
export function parseProvisioning(text: string): Provisioning {
  const parsed = schema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => ({
    path: issue.path.join('.'),
    message: issue.message,
  }));
  throw invalid(problems.map(({ path, message }) => `${path || 'the file'}: ${message}`).join('; '), {
    problems,
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid((error as SyntaxError).message, {});
  }
}

function invalid(why: string, details: Record<string, unknown>): ConfigError {
  return new ConfigError('config-provisioning-invalid', `reading ${PROVISIONING_PATH}: ${why}`, { details });
}
