import { dirname } from 'node:path';
import { readText } from '../../internal/file/index.ts';
import { NODE_MEMORY, SERVICE_SANDBOX, type SystemPorts } from '../../internal/platform/index.ts';
import { ensureUnit } from './ensure-unit.ts';

const COMMAND =
  '/usr/lib/cluster/node --optimize-for-size --no-maglev --max-semi-space-size=1 --max-old-space-size=64 /usr/lib/cluster/apilb.mjs';

/** Settings of one unit that runs the program for forwarding TCP connections (bootstrapper/apilb). */
export interface Forwarder {
  readonly unit: string;
  readonly content: string;
  /**
   * Path of the configuration. It is in a separate directory, which the unprivileged user may enter;
   * /etc/cluster contains secrets.
   */
  readonly configFile: string;
  /** Configuration of the program; undefined while no server is known. */
  readonly config: object | undefined;
}

/**
 * The unit file of a forwarder. The forwarder has no user and no keys, and can read only its configuration.
 * `settings`: further lines of [Service].
 */
export function buildForwarderUnit(of: {
  readonly description: string;
  readonly configFile: string;
  readonly settings: string;
}): string {
  return `[Unit]
Description=${of.description}
After=network.target
StartLimitIntervalSec=0

[Service]
ExecStart=${COMMAND} ${of.configFile}
DynamicUser=yes
${of.settings}
${SERVICE_SANDBOX}
${NODE_MEMORY}
Restart=always
RestartSec=1
`;
}

/**
 * Writes the configuration and starts the unit. A running forwarder applies a new configuration without a
 * restart. While no server is known, the previous configuration stays in use, even after a reboot; without a
 * previous configuration, the unit is not started.
 */
export async function ensureForwarder(
  { files, units }: Pick<SystemPorts, 'files' | 'units'>,
  { unit, content, configFile, config }: Forwarder,
  signal: AbortSignal,
): Promise<void> {
  const found = await readText(files, configFile);
  if (config === undefined && found === undefined) return;
  const text = `${JSON.stringify(config)}\n`;
  if (config !== undefined && found !== text) {
    await files.makeDirectory(dirname(configFile), 0o755);
    await files.writeAtomic(configFile, text, { mode: 0o644 });
  }
  await ensureUnit(units, { unit, content }, signal);
}
