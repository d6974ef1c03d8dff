import { createHash } from 'node:crypto';
import { listenHost, PORTS } from '../../internal/endpoint/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { NODE_MEMORY, SERVICE_SANDBOX, type SystemPorts } from '../../internal/platform/index.ts';
import { ensureUnit } from './ensure-unit.ts';
import { credentialsDirectory } from './service-unit.ts';

/** Unit of the exporter, which serves the metrics of this node to Prometheus. */
export const EXPORTER_UNIT = 'cluster-exporter.service';
const CONFIG_FILE = '/etc/cluster-exporter/config.json';
const COMMAND =
  '/usr/lib/cluster/node --optimize-for-size --no-maglev --max-semi-space-size=1 --max-old-space-size=64 /usr/lib/cluster/exporter.mjs';

/** Settings with which the exporter runs on this node. */
export interface ExporterSettings {
  readonly nodeAddress: string;
  /** "host:port" of the API servers. */
  readonly apiEndpoint: string;
  readonly isControlPlane: boolean;
  /** The certificate with which the kubelet serves, its key, and the CAs of API servers, PEM. */
  readonly files: { readonly cert: string; readonly key: string; readonly apiServersCa: string };
}

/** The unit file. The exporter has no user of its own, and can read only its credentials. */
export function buildExporterUnit(credentials: ExporterSettings['files'], credentialsSha256: string): string {
  const loaded = { 'config.json': CONFIG_FILE, ...credentials };
  return `# Credentials: ${credentialsSha256}
[Unit]
Description=Metrics of this node for Prometheus (cluster)
After=network.target
StartLimitIntervalSec=0

[Service]
ExecStart=${COMMAND} ${credentialsDirectory(EXPORTER_UNIT)}/config.json
DynamicUser=yes
${Object.entries(loaded)
  .map(([name, path]) => `LoadCredential=${name}:${path}`)
  .join('\n')}
CPUWeight=20
MemoryMax=192M
TasksMax=64
OOMScoreAdjust=500
${SERVICE_SANDBOX}
${NODE_MEMORY}
Restart=always
RestartSec=1
`;
}

/** The configuration and the unit of the exporter, or the path of a file that does not exist yet. */
export type ExporterUnit =
  { readonly config: string; readonly content: string } | { readonly missing: string };

/**
 * Reads the settings and credentials of the exporter. The unit file contains a hash of both, so `ensureExporter()` restarts the
 * exporter when a setting changes or a certificate is renewed.
 */
export async function readExporterUnit(
  files: Pick<FilePort, 'read'>,
  settings: ExporterSettings,
): Promise<ExporterUnit> {
  const config = buildConfig(settings);
  const hash = createHash('sha256').update(config);
  for (const path of Object.values<string>({ ...settings.files })) {
    const text = await readText(files, path);
    if (text === undefined) return { missing: path };
    hash.update('\0').update(text);
  }
  return { config, content: buildExporterUnit(settings.files, hash.digest('hex')) };
}

/** Runs the exporter. May be repeated; a running exporter is restarted only if its unit has changed. */
export async function ensureExporter(
  { files, units }: Pick<SystemPorts, 'files' | 'units'>,
  { config, content }: Exclude<ExporterUnit, { readonly missing: string }>,
  signal: AbortSignal,
): Promise<void> {
  await files.makeDirectory('/etc/cluster-exporter', 0o755);
  await files.writeAtomic(CONFIG_FILE, config, { mode: 0o644 });
  await ensureUnit(units, { unit: EXPORTER_UNIT, content }, signal);
}

function buildConfig({ nodeAddress, apiEndpoint, isControlPlane }: ExporterSettings): string {
  const at = (name: keyof ExporterSettings['files']): string =>
    `${credentialsDirectory(EXPORTER_UNIT)}/${name}`;
  const config = {
    listen: { host: listenHost(nodeAddress), port: PORTS.exporter },
    ...{ certFile: at('cert'), keyFile: at('key') },
    ...{ apiServer: `https://${apiEndpoint}`, apiServerCaFile: at('apiServersCa') },
    isControlPlane,
  };
  return `${JSON.stringify(config)}\n`;
}
