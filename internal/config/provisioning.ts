import { parseEndpoint, PORTS } from '../endpoint/index.ts';
import { isIP } from 'node:net';
import { z } from 'zod';
import { DEFAULT_LOCK_PCR } from '../attestation/index.ts';
import { ROLES } from '../role/index.ts';
import { attestationSchema } from './attestation-schema.ts';
import { ConfigError } from './errors.ts';

/** Where a machine finds what it was provisioned with; 0600. */
export const PROVISIONING_PATH = '/etc/cluster/provisioning.json';
export const MAX_PROVISIONING_BYTES = 64 * 1024;

const absolutePath = z.string().regex(/^\/[^\0]*$/, 'an absolute path');
const ed25519Key = z.string().refine(
  // One spelling per key: what decodes but is not what we would write is a typing error.
  (text) =>
    Buffer.from(text, 'base64').length === 32 && Buffer.from(text, 'base64').toString('base64') === text,
  'the base64 of a raw 32-byte Ed25519 public key',
);

/** Of the boot chain and of the node lock; 16 and 23 are anybody's to reset. */
const register = z.int().min(0).max(15);
const registers = {
  lockPcr: register
    .min(8)
    .default(DEFAULT_LOCK_PCR)
    .describe('PCR that shows which cluster the machine is bound to: one that nothing extends during boot.'),
  sealedPcrs: z
    .array(register)
    .min(1)
    .default([7])
    .describe(
      'PCRs that tell the agent’s software: its attestation key works only while they are as they were when it was made. 7 (Secure Boot) survives updates; machines of the profile `measured` add what their boot loader measures the agent into.',
    ),
};

const schema = z.strictObject({
  version: z.literal(1).describe('Version of the format of this file.'),
  platform: z
    .enum(['local', 'metal'])
    .describe('`metal` for every real or virtual machine; `local` for machines of `cluster mini`.'),
  ownerKeys: z
    .tuple([ed25519Key], ed25519Key)
    .describe(
      'Who may make this machine part of a cluster: raw Ed25519 public keys in base64, as `cluster config generate` prints them. Never empty: nobody would be everybody.',
    ),
  cluster: z
    .strictObject({
      id: z
        .string()
        .regex(/^[0-9a-f]{32}$/, '32 lower-case hex digits')
        .describe('Id of the cluster.'),
      caSha256: z
        .string()
        .regex(/^[0-9a-f]{64}$/, '64 lower-case hex digits')
        .describe('SHA-256 of the DER of its CA certificate.'),
    })
    .optional()
    .describe(
      'The one cluster that the machine is for, where its owners have several or their key alone is not to decide. Only what lets the machine in for the first time is held to it.',
    ),
  tpm: z
    .discriminatedUnion('kind', [
      z.strictObject({
        kind: z.literal('none').describe('The machine shows a key on its disk and nothing else.'),
      }),
      z.strictObject({
        kind: z.literal('device').describe('A TPM 2.0 behind a device.'),
        path: absolutePath.describe('The device, like /dev/tpmrm0.'),
        ...registers,
      }),
      z.strictObject({
        kind: z.literal('socket').describe('A software TPM behind a Unix socket.'),
        path: absolutePath.describe('The socket.'),
        ...registers,
      }),
    ])
    .describe('The TPM by which the machine proves which one it is.'),
  processor: z
    .enum(['none', 'sev-snp', 'tdx'])
    .default('none')
    .describe(
      'A confidential processor whose reports the machine shows, together with its TPM if it has one.',
    ),
  seedStores: z
    .array(absolutePath)
    .default([])
    .describe('Directories with components of the bundle, read before anything is fetched.'),
  nodeName: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'a DNS label')
    .optional()
    .describe('Name that the machine wishes to have as a node; its hostname unless said.'),
  address: z
    .string()
    .refine((text) => isIP(text) !== 0, 'an IP address')
    .optional()
    .describe('Address that other machines reach this one at; the first of its own unless said.'),
  containerRuntime: z
    .strictObject({
      restrictOomScoreAdj: z
        .boolean()
        .optional()
        .describe('true for hosts without CAP_SYS_RESOURCE: the runtime lowers no out-of-memory score.'),
    })
    .default({})
    .describe('Settings of containerd.'),
  kubelet: z
    .strictObject({
      failCgroupV1: z
        .boolean()
        .optional()
        .describe('false lets the kubelet start on a machine with cgroup v1; true unless said.'),
    })
    .default({})
    .describe('Settings of the kubelet.'),
  joinEndpoints: z
    .array(
      z
        .string()
        .refine((text) => parseEndpoint(text, PORTS.join) !== undefined, 'an address with or without a port'),
    )
    .default([])
    .describe('Control-plane nodes of the cluster to join, HOST or HOST:PORT (9090).'),
  wantedRoles: z
    .array(z.enum(ROLES))
    .default([])
    .describe(
      'Roles that the machine would like. It gets what the policy of the cluster says, and is refused where it wishes for more.',
    ),
  metadata: z
    .strictObject({
      kind: z.literal('http').describe('The only kind there is.'),
      url: z.url({ protocol: /^https?$/ }).describe('Answers a JSON object with `joinEndpoints`.'),
    })
    .optional()
    .describe('A service of the machine’s own network that knows `joinEndpoints`.'),
  attestation: attestationSchema
    .optional()
    .describe(
      'What is asked of the cluster’s own evidence, as in `cluster.yaml`. Without it the owner’s signature alone decides.',
    ),
});

export type Provisioning = z.output<typeof schema>;
export type PinnedCluster = NonNullable<Provisioning['cluster']>;

/**
 * Parses `/etc/cluster/provisioning.json`, or a file that is to become it; `path` is for messages.
 * @throws ConfigError `config-provisioning-invalid`: every problem with its path in the file
 */
export function parseProvisioning(text: string, path = PROVISIONING_PATH): Provisioning {
  const parsed = schema.safeParse(parseJson(text, path));
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => ({
    path: issue.path.join('.'),
    message: issue.message,
  }));
  const lines = problems.map((each) => `${each.path || 'the file'}: ${each.message}`);
  throw invalid(path, lines.join('; '), { problems });
}

/** JSON Schema (2020-12) of the provisioning, for editors and automation. */
export function provisioningJsonSchema(): Readonly<Record<string, unknown>> {
  return z.toJSONSchema(schema, { io: 'input' });
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = text === '' ? 'it is empty or not there' : (error as SyntaxError).message;
    throw invalid(path, why, {});
  }
}

function invalid(path: string, why: string, details: Record<string, unknown>): ConfigError {
  return new ConfigError('config-provisioning-invalid', `reading ${path}: ${why}`, { details });
}
