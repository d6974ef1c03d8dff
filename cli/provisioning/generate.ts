import { ConfigError, parseProvisioning, type ClusterConfig } from '../../internal/config/index.ts';
import { recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import { approvalKeyOfOwner } from '../../internal/statedisk/index.ts';
import type { CommandContext } from '../app/command.ts';
import { writeOutput } from '../app/output-file.ts';
import { readAgentPackage, userDataOf, type PackageOptions } from '../cloudinit/index.ts';
import { layoutOf, readConfig, readOwnerKey } from '../workspace/index.ts';
import { ProvisioningError } from './errors.ts';

/** Flags of `cluster provisioning generate`. */
export interface GenerateProvisioningOptions extends PackageOptions {
  /** Raw Ed25519 public keys in base64. Empty: the key of the workspace. */
  readonly ownerKeys: readonly string[];
  /** Path of the TPM device; undefined for a machine without one. */
  readonly tpmDevice: string | undefined;
  readonly processor?: string;
  readonly nodeName?: string;
  readonly address?: string;
  readonly joinEndpoints: readonly string[];
  /** Block device of the encrypted state disk; undefined for a machine without one. */
  readonly stateDisk?: string;
  /** PCRs that the state disk is sealed to. */
  readonly stateDiskPcrs?: readonly number[];
  /** false with --no-state-disk-integrity. */
  readonly stateDiskIntegrity?: boolean;
  /** Recipients ("age1…") of the recovery key of the state disk, beside the owner key of the workspace. */
  readonly recoveryRecipients: readonly string[];
  /** How many of these keys recover the disk together; undefined: each alone. */
  readonly recoveryThreshold?: number;
  /** File to create (0600); undefined for standard output. */
  readonly out?: string;
}

/**
 * `cluster provisioning generate`: writes a file that passes the agent's own schema.
 * @throws ProvisioningError, ConfigError, AppError `app-file-exists`
 */
export async function runProvisioningGenerate(
  context: CommandContext,
  options: GenerateProvisioningOptions,
): Promise<void> {
  const { tpmDevice, processor, nodeName, address, joinEndpoints, out } = options;
  const agentPackage = readAgentPackage(context, options);
  const provisioning = {
    version: 1,
    platform: 'metal',
    ownerKeys: options.ownerKeys.length > 0 ? options.ownerKeys : [await ownKey(context)],
    tpm: tpmDevice === undefined ? { kind: 'none' } : { kind: 'device', path: tpmDevice },
    stateDisk: await stateDiskOf(context, options),
    ...{ processor, nodeName, address }, // JSON omits undefined members
    joinEndpoints: joinEndpoints.length === 0 ? undefined : joinEndpoints,
  };
  const json = `${JSON.stringify(provisioning, undefined, 2)}\n`;
  verifyFlags(json);
  if (options.recoveryThreshold !== undefined && options.recoveryThreshold > provisioning.ownerKeys.length)
    context.host.warn(
      'provisioning-recovery-threshold',
      `A recovery needs ${options.recoveryThreshold} recipients, but the file names fewer owners: ${provisioning.ownerKeys.length} (--owner-key). The machine serves nobody else over the network: another recipient acts at its console, or gives an owner the key for --recovery-key.`,
    );
  await warnOfVariant(context, { hasTpm: tpmDevice !== undefined, processor });
  const hasStateDisk = provisioning.stateDisk !== undefined;
  const userData =
    options.format === 'cloud-init' ? userDataOf({ json, agentPackage, hasStateDisk }) : undefined;
  const text = userData ?? json;
  if (out !== undefined) await writeOutput(context.ports.files, { path: out }, text);
  const result = { provisioning, ...(userData !== undefined && { cloudConfig: userData }) };
  context.host.result({ ...result, ...(out !== undefined && { path: out }) }, () =>
    out === undefined ? text.trimEnd() : `Wrote ${out}.\n\nNext: ${NEXT[options.format]}`,
  );
}

const NEXT: Readonly<Record<PackageOptions['format'], string>> = {
  provisioning:
    'copy it to /etc/cluster/provisioning.json on the machine, and run there: systemctl restart bootstrapper',
  'cloud-init': 'create the machine with this file as its user data.',
};

/** The flag of each member of the file. */
const FLAGS: Readonly<Record<string, string>> = {
  ownerKeys: '--owner-key',
  tpm: '--tpm',
  processor: '--processor',
  nodeName: '--node-name',
  address: '--address',
  joinEndpoints: '--join-endpoint',
  'stateDisk.device': '--state-disk',
  'stateDisk.pcrs': '--state-disk-pcrs',
  'stateDisk.recoveryRecipients': '--recovery-recipient',
  'stateDisk.recoveryThreshold': '--recovery-threshold',
};

/** Parses the file with the agent's own schema. @throws ProvisioningError `provisioning-flag-invalid` */
function verifyFlags(json: string): void {
  try {
    parseProvisioning(json);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const problems = (error.details['problems'] ?? []) as readonly { path: string; message: string }[];
    const texts = problems.map(({ path, message }) => {
      const [member = '', part = ''] = path.split('.');
      return `${FLAGS[`${member}.${part}`] ?? FLAGS[member] ?? path} must be ${message}`;
    });
    throw new ProvisioningError('provisioning-flag-invalid', texts.join('; '));
  }
}

/** The state disk, which the owner key of the workspace and the given recipients can recover. */
async function stateDiskOf(
  context: CommandContext,
  options: GenerateProvisioningOptions,
): Promise<object | undefined> {
  const { stateDisk: device, stateDiskPcrs: pcrs, stateDiskIntegrity, recoveryRecipients } = options;
  const { recoveryThreshold } = options;
  if (device === undefined) {
    const isSet = [pcrs, recoveryThreshold].some((each) => each !== undefined);
    if (!isSet && stateDiskIntegrity !== false && recoveryRecipients.length === 0) return undefined;
    throw new ProvisioningError('provisioning-flag-invalid', '--state-disk must be given too');
  }
  if (options.tpmDevice === undefined)
    throw new ProvisioningError('provisioning-flag-invalid', '--state-disk must be without --no-tpm');
  const layout = layoutOf(context.paths.workspace);
  const ownerKey =
    (await context.ports.files.stat(layout.ownerKey)) === undefined
      ? undefined
      : (await readOwnerKey(context, layout)).keyPem;
  const own = ownerKey === undefined ? [] : [recoveryKeyOfOwner(ownerKey).recipient];
  const recipients = [...new Set([...own, ...recoveryRecipients])];
  if (recipients.length === 0)
    throw new ProvisioningError(
      'provisioning-no-owner',
      'no recovery recipient for the state disk: no owner key in the workspace, and no --recovery-recipient',
    );
  return {
    ...{ device, pcrs }, // JSON omits undefined members
    integrity: stateDiskIntegrity === false ? false : undefined,
    // An approval key lets one owner alone open the disk for other software.
    approvalKey:
      (recoveryThreshold ?? 1) > 1 || ownerKey === undefined
        ? undefined
        : approvalKeyOfOwner(ownerKey).publicKey,
    recoveryRecipients: recipients,
    recoveryThreshold,
  };
}

async function ownKey(context: CommandContext): Promise<string> {
  const { ports, paths } = context;
  const layout = layoutOf(paths.workspace);
  if ((await ports.files.stat(layout.ownerKey)) === undefined)
    throw new ProvisioningError('provisioning-no-owner', `owner key ${layout.ownerKey} not found`);
  return (await readOwnerKey(context, layout)).pubKeyBase64;
}

/** Warns when the cluster does not accept the machine's kind of evidence: the machine could never join. */
async function warnOfVariant(
  { host, ports, paths }: CommandContext,
  machine: { readonly hasTpm: boolean; readonly processor: string | undefined },
): Promise<void> {
  const layout = layoutOf(paths.workspace);
  if ((await ports.files.stat(layout.config)) === undefined) return;
  const { variants } = (await readConfig(ports.files, layout)).attestation;
  const shown = variantOf(machine);
  if (variants.some((each) => each === shown)) return;
  host.warn(
    'provisioning-variant',
    `The machine presents ${shown} evidence, but attestation.variants of ${layout.config} accepts only ${variants.join(', ')}.`,
    { shown, variants },
  );
}

function variantOf({
  hasTpm,
  processor,
}: {
  readonly hasTpm: boolean;
  readonly processor: string | undefined;
}): ClusterConfig['attestation']['variants'][number] {
  if (processor === 'sev-snp') return hasTpm ? 'snp+tpm' : 'sev-snp';
  if (processor === 'tdx') return hasTpm ? 'tdx+tpm' : 'tdx';
  return hasTpm ? 'tpm' : 'machine-key';
}
