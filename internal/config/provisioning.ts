import { z } from 'zod';
import { describeError, shapeProblemOf } from '../errors/index.ts';
import { DEFAULT_LOCK_PCR } from '../attestation/index.ts';
import { parseRecipient } from '../backup/index.ts';
import { canonicalAddress, DNS_LABEL, parseEndpoint, PORTS } from '../endpoint/index.ts';
import { MAX_RECOVERY_SHARES, parseApprovalKey } from '../statedisk/index.ts';
import { ROLES } from '../role/index.ts';
import { attestationSchema } from './attestation-schema.ts';
import { ConfigError } from './errors.ts';

/** The provisioning file of a machine (mode 0600). */
export const PROVISIONING_PATH = '/etc/cluster/provisioning.json';
/** The maximum size of the provisioning file. */
export const MAX_PROVISIONING_BYTES = 64 * 1024;

const absolutePath = z.string().regex(/^\/[^\0]*$/, 'an absolute path');
const ed25519Key = z.string().refine(
  // Only the canonical base64 of a key is accepted, because any other text is probably a typing error.
  (text) =>
    Buffer.from(text, 'base64').length === 32 && Buffer.from(text, 'base64').toString('base64') === text,
  'the base64 of a raw 32-byte Ed25519 public key',
);

/**
 * The allowed PCRs: those of the boot chain, and one of them for the node lock. PCR 16 and 23 are excluded,
 * because every process may reset them.
 */
const register = z.int().min(0).max(15);
const registers = {
  lockPcr: register
    .min(8)
    .default(DEFAULT_LOCK_PCR)
    .describe('PCR that shows which cluster the machine belongs to. Nothing else may extend it during boot.'),
  sealedPcrs: z
    .array(register)
    .min(1)
    .default([7])
    .describe(
      'PCRs that the attestation key of the agent is sealed to: the key is usable only with the PCR values at its creation. 7 (Secure Boot) survives updates; for the profile `measured`, add the PCRs that the boot loader measures the agent into.',
    ),
};

const recipient = z.string().refine((text) => isRecipient(text), 'an age recipient, age1…');

const stateDiskMembers = z.strictObject({
  device: z
    .string()
    .regex(/^\/dev\/[^\0]+$/, 'a path below /dev')
    .describe(
      'Block device: a disk or a partition. Its name should not depend on the order of disks: /dev/disk/by-id/…, /dev/disk/by-partlabel/….',
    ),
  pcrs: z
    .array(register)
    .min(1)
    .refine((pcrs) => new Set(pcrs).size === pcrs.length, 'PCRs that differ from each other')
    .default([7])
    .describe(
      'PCRs to which the disk is sealed: the disk opens only while these PCRs have the values that they had when it was opened last. An image of `cluster image build` should use 4, 7, 9, 11 and 12.',
    ),
  integrity: z
    .boolean()
    .default(true)
    .describe(
      'Whether each sector is authenticated (dm-integrity): a changed sector is an error instead of noise. Every write is then written twice, and formatting writes the whole disk.',
    ),
  approvalKey: z
    .string()
    .refine((text) => parseApprovalKey(text) !== undefined, 'the base64 of a compressed point on P-256')
    .optional()
    .describe(
      'Public key with which an owner approves other values of these PCRs, before new firmware or a new image starts (`cluster attest approve`). `cluster provisioning generate` derives it from the owner key. Default: nobody can; after such a change an owner recovers the disk.',
    ),
  recoveryRecipients: z
    .tuple([recipient], recipient)
    .describe(
      'Recipients (age1…) whose private keys open the disk when the TPM does not. `cluster provisioning generate` writes the recipient of the owner key. Never empty.',
    ),
  recoveryThreshold: z
    .int()
    .min(1)
    .default(1)
    .describe(
      'How many of the recipients must act together to recover the disk. With 2 or more, each has a share of the recovery key and nobody the key, and the recipients must differ. An approval key, if the file names one, still approves new software alone. Default: each recipient alone.',
    ),
});

const stateDisk = stateDiskMembers.superRefine(
  ({ recoveryRecipients: recipients, recoveryThreshold }, context) => {
    const refuse = (message: string, member: keyof z.infer<typeof stateDiskMembers>): void =>
      context.addIssue({ code: 'custom', message, path: [member] });
    if (recoveryThreshold === 1) return;
    // One key has several texts: bech32 may be in upper case.
    const keys = recipients
      .filter(isRecipient)
      .map((text) => Buffer.from(parseRecipient(text)).toString('hex'));
    if (new Set(keys).size !== keys.length)
      refuse('recipients that differ from each other', 'recoveryRecipients');
    if (recipients.length > MAX_RECOVERY_SHARES)
      refuse(`at most ${MAX_RECOVERY_SHARES} recipients`, 'recoveryRecipients');
    if (recoveryThreshold > recipients.length)
      refuse(`at most the number of recipients (${recipients.length})`, 'recoveryThreshold');
  },
);

const schema = z.strictObject({
  version: z.literal(1).describe('Version of the format of this file.'),
  platform: z
    .enum(['local', 'metal'])
    .describe('`metal` for every real or virtual machine; `local` for machines of `cluster mini`.'),
  ownerKeys: z
    .tuple([ed25519Key], ed25519Key)
    .describe(
      'Owners that may initialize this machine or let it join: raw Ed25519 public keys in base64, as `cluster config generate` prints them. Never empty.',
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
        .describe(
          'SHA-256 of the CA certificate of the cluster (DER). A CA with which an owner has replaced this CA is accepted as well.',
        ),
      caGeneration: z
        .int()
        .min(2)
        .optional()
        .describe(
          'Generation of the shared keys to which the CA belongs, if this CA has replaced another CA. The machine accepts no CA of an earlier generation.',
        ),
    })
    .optional()
    .describe(
      'The only cluster that the machine may join, for owners with several clusters. Checked at the first join.',
    ),
  tpm: z
    .discriminatedUnion('kind', [
      z.strictObject({
        kind: z.literal('none').describe('The machine proves its identity with a key on its disk only.'),
      }),
      z.strictObject({
        kind: z.literal('device').describe('A TPM 2.0 at a device file.'),
        path: absolutePath.describe('The device, like /dev/tpmrm0.'),
        ...registers,
      }),
      z.strictObject({
        kind: z.literal('socket').describe('A software TPM behind a Unix socket.'),
        path: absolutePath.describe('The socket.'),
        ...registers,
      }),
    ])
    .describe('The TPM with which the machine proves its identity.'),
  stateDisk: stateDisk
    .optional()
    .describe(
      'The encrypted disk for the state of the machine (docs/decisions/state-disk.md). The agent formats it if it is empty. Default: the state is on the disks of the operating system, as they are.',
    ),
  processor: z
    .enum(['none', 'sev-snp', 'tdx'])
    .default('none')
    .describe(
      'The confidential-computing processor whose attestation reports the machine sends, together with the evidence of its TPM.',
    ),
  seedStores: z
    .array(absolutePath)
    .default([])
    .describe(
      'Directories with components of a version bundle. The machine downloads only components that are in none of them.',
    ),
  nodeName: z
    .string()
    .regex(DNS_LABEL, 'a DNS label')
    .optional()
    .describe('Requested name of the node; default: the name that the cloud suggests, or the hostname.'),
  address: z
    .string()
    .refine((text) => canonicalAddress(text) !== undefined, 'an IP address without a zone')
    // It is compared with the addresses that the kernel shows.
    .overwrite((text) => canonicalAddress(text) ?? text)
    .optional()
    .describe(
      'Address at which other machines reach this machine; default: the address that the cloud suggests, or the first address of the machine.',
    ),
  cloud: z
    .enum(['auto', 'aws', 'gcp', 'azure', 'openstack', 'nocloud', 'none'])
    .default('auto')
    .describe(
      'The cloud that may suggest a node name, an address, region and zone (docs/decisions/cloud-hints.md). `auto` recognizes the cloud by the firmware, and sends nothing on other machines. `none` uses no suggestion.',
    ),
  containerRuntime: z
    .strictObject({
      restrictOomScoreAdj: z
        .boolean()
        .optional()
        .describe(
          'true for hosts without CAP_SYS_RESOURCE: the container runtime does not lower out-of-memory scores.',
        ),
    })
    .default({})
    .describe('Settings of containerd.'),
  kubelet: z
    .strictObject({
      failCgroupV1: z
        .boolean()
        .optional()
        .describe(
          'false lets the kubelet start on a machine with cgroup v1; default: true. Only for the platform `local`, whose machines are containers on a host that may have cgroup v1.',
        ),
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
    .describe('Control-plane nodes of the cluster to join, HOST or HOST:PORT (default port: 9090).'),
  wantedRoles: z
    .array(z.enum(ROLES))
    .default([])
    .describe(
      'Requested roles. The join policy of the cluster decides, and refuses the machine if it requests more.',
    ),
  metadata: z
    .strictObject({
      kind: z.literal('http').describe('An HTTP service.'),
      url: z.url({ protocol: /^https?$/ }).describe('URL of a JSON object with `joinEndpoints`.'),
    })
    .optional()
    .describe('A service in the network of the machine that provides `joinEndpoints`.'),
  attestation: attestationSchema
    .optional()
    .describe(
      'Requirements for the evidence of the cluster, as in `cluster.yaml`. Default: the signature of the owner is sufficient.',
    ),
});

/** The schema with the rules between members. */
const consistent = schema.superRefine(({ platform, kubelet, tpm, stateDisk: disk }, context) => {
  // Kubernetes has deprecated cgroup v1: a real machine can boot with v2, a local one has what its host has.
  if (platform !== 'local' && kubelet.failCgroupV1 === false)
    context.addIssue({
      code: 'custom',
      path: ['kubelet', 'failCgroupV1'],
      message: `false is only for platform local, and platform is ${platform}: remove the key, and boot the machine with cgroup v2`,
    });
  if (disk === undefined) return;
  if (tpm.kind === 'none')
    context.addIssue({
      code: 'custom',
      path: ['stateDisk'],
      message: 'a state disk needs a TPM, and tpm.kind is none',
    });
  // The agent extends this PCR while it runs: the disk would not open after a restart of the machine.
  else if (disk.pcrs.includes(tpm.lockPcr))
    context.addIssue({
      code: 'custom',
      path: ['stateDisk', 'pcrs'],
      message: `PCRs without ${tpm.lockPcr}, which is tpm.lockPcr and changes when the machine joins a cluster`,
    });
});

/** A parsed provisioning file with all defaults. */
export type Provisioning = z.output<typeof schema>;
/** The encrypted state disk of a machine. */
export type ProvisionedDisk = NonNullable<Provisioning['stateDisk']>;
/** The cloud whose metadata the machine uses. */
export type CloudSetting = Provisioning['cloud'];
/** The only cluster that a machine may join. */
export type PinnedCluster = NonNullable<Provisioning['cluster']>;

/**
 * Parses a provisioning file. `path` is for messages.
 * @throws ConfigError `config-provisioning-invalid`: every problem with its path in the file
 */
export function parseProvisioning(text: string, path = PROVISIONING_PATH): Provisioning {
  const parsed = consistent.safeParse(parseJson(text, path));
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(shapeProblemOf);
  const lines = problems.map((each) => `${each.path || 'the file'}: ${each.message}`);
  throw invalid(path, lines.join('; '), { problems });
}

/** JSON Schema (2020-12) of the provisioning, for editors and automation. */
export function provisioningJsonSchema(): Readonly<Record<string, unknown>> {
  return z.toJSONSchema(schema, { io: 'input' });
}

function isRecipient(text: string): boolean {
  try {
    parseRecipient(text);
    return true;
  } catch {
    return false;
  }
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = text === '' ? 'file is empty or does not exist' : describeError(error);
    throw invalid(path, why, {});
  }
}

function invalid(path: string, why: string, details: Record<string, unknown>): ConfigError {
  return new ConfigError('config-provisioning-invalid', `reading ${path}: ${why}`, { details });
}
