import { findTpmProblem } from '../../internal/preflight/index.ts';
import {
  MAX_PROVISIONING_BYTES,
  parseProvisioning,
  PROVISIONING_PATH,
  provisioningJsonSchema,
} from '../../internal/config/index.ts';
import type { CommandContext } from '../app/command.ts';
import { ProvisioningError } from './errors.ts';

/** Group or others may write the file. */
const WRITABLE_BY_OTHERS = 0o022;

/**
 * `cluster provisioning validate`: checks the file like the agent does and, for the file of this machine, that the TPM responds and the
 * state disk exists.
 * @throws ConfigError, ProvisioningError
 */
export async function runProvisioningValidate(
  context: CommandContext,
  named: string | undefined,
): Promise<void> {
  const { host, ports, signal } = context;
  const path = named ?? PROVISIONING_PATH;
  const bytes = await ports.files.read(path, MAX_PROVISIONING_BYTES);
  const provisioning = parseProvisioning(Buffer.from(bytes ?? []).toString('utf8'), path);
  const mode = (await ports.files.stat(path))?.mode ?? 0;
  if ((mode & WRITABLE_BY_OTHERS) !== 0)
    host.warn('provisioning-writable', `${path} is writable by other users; run: chmod 600 ${path}`);
  const isOwn = path === PROVISIONING_PATH;
  const device = provisioning.stateDisk?.device;
  if (isOwn && device !== undefined && (await ports.files.stat(device)) === undefined)
    throw new ProvisioningError('provisioning-disk-missing', `${path}: stateDisk: ${device} not found`);
  if (isOwn && provisioning.tpm.kind !== 'none') {
    const problem = await findTpmProblem(provisioning.tpm, ports.clock, signal);
    if (problem !== undefined)
      throw new ProvisioningError('provisioning-tpm-unusable', `${path}: tpm: ${problem}`);
  }
  host.result({ path, valid: true, provisioning }, () => `${path} is valid.`);
}

/** `cluster provisioning schema`. */
export function runProvisioningSchema(context: CommandContext): void {
  const schema = provisioningJsonSchema();
  context.host.result(schema, () => JSON.stringify(schema, undefined, 2));
}
