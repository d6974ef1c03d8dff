import { createHash } from 'node:crypto';
import { z } from 'zod';
import {
  BackupError,
  decryptAge,
  encryptAge,
  readBackupHeader,
  readBackupParts,
  verifyBackup,
  type BackupHeader,
  type RecoveryKey,
} from '../../internal/backup/index.ts';
import { MAX_CONFIG_BYTES } from '../../internal/config/index.ts';
import { DiskStreams, parseJson, readText } from '../../internal/file/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import type { CommandContext } from '../app/command.ts';
import {
  MAX_CHARTS_BYTES,
  packCharts,
  packedChartShape,
  unpackCharts,
  type PackedChart,
} from '../charts/index.ts';
import { clusterIdFrom, openWorkspace } from '../cluster/index.ts';
import {
  adoptWorkspace,
  layoutOf,
  parseMasterSecret,
  readMasterSecret,
  readOwnerKeyFile,
  renderMasterSecret,
  type AdoptedWorkspace,
} from '../workspace/index.ts';
import { BackupCommandError } from './errors.ts';
import { readRecoveryKey } from './recovery-key.ts';

const NO_WORKSPACE =
  'this workspace has no master secret (master-secret.json), as that of an owner who did not create the cluster: the backup contains no workspace. To restore it, you need a copy of the workspace of the first owner as well';

/**
 * What a workspace needs besides the owner key: the texts of master-secret.json and cluster.yaml, and the charts that cluster.yaml
 * names by a path. Version 1 has no charts.
 */
const partShape = z.strictObject({
  version: z.literal([1, 2]),
  masterSecret: z.string(),
  configuration: z.string(),
  charts: z.array(packedChartShape).optional(),
});
const MAX_PART_BYTES = 2 * MAX_CONFIG_BYTES + 2 * MAX_CHARTS_BYTES;

/**
 * The part `workspace` of a backup: master secret, cluster.yaml and the charts that it names by a path, encrypted here to the recovery
 * keys, because no node may see them. Empty if this workspace is not that of the first owner. Warns about each thing that is missing in it.
 */
export async function sealWorkspacePart(
  context: CommandContext,
  recipients: readonly string[],
): Promise<Uint8Array> {
  const { files } = context.ports;
  const layout = layoutOf(context.paths.workspace);
  if ((await files.stat(layout.masterSecret)) === undefined) {
    context.host.warn('backup-without-workspace', NO_WORKSPACE);
    return new Uint8Array();
  }
  const masterSecret = renderMasterSecret(await readMasterSecret(context, layout)).reveal();
  const configuration = (await readText(files, layout.config, MAX_CONFIG_BYTES)) ?? '';
  const charts = await packCharts(context, layout);
  const part = partShape.parse({ version: 2, masterSecret, configuration, charts });
  return collect(encryptAge(one(Buffer.from(JSON.stringify(part), 'utf8')), recipients));
}

/** The keys that restore the workspace from a backup. */
export interface WorkspaceKeys {
  /** File with the owner key. */
  readonly ownerKey: string;
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey: string | undefined;
}

/**
 * Creates the workspace of the cluster in a backup, from the file and the owner key alone. Does nothing if the
 * workspace exists already.
 * @param configure changes the text of cluster.yaml
 * @throws BackupError, BackupCommandError `backup-no-workspace`, WorkspaceError `workspace-other-cluster`
 */
export async function restoreWorkspace(
  context: CommandContext,
  file: string,
  keys: WorkspaceKeys & { readonly configure?: (text: string) => string },
): Promise<void> {
  const { signal, host } = context;
  const ownerKey = await readOwnerKeyFile(context, keys.ownerKey);
  const key = await readRecoveryKey(context, ownerKey.keyPem, keys.recoveryKey);
  const read = () => new DiskStreams().readChunks(file, { signal });
  const owners = [new Uint8Array(Buffer.from(ownerKey.pubKeyBase64, 'base64'))];
  const opened = await host.step('restore-workspace', `Reading the workspace in ${file}`, async () => {
    const { clusterId } = await readBackupHeader(read());
    // An owner certified the cluster ID in the header.
    const { header } = await verifyBackup(read(), { owners, clusterId, epoch: 1 });
    return openWorkspacePart(context, file, header, key);
  });
  await using workspace = await openWorkspace(context, 'cluster restore');
  const configText = keys.configure?.(opened.configText) ?? opened.configText;
  const { charts, ...adopted } = opened;
  await unpackCharts(context.ports.files, workspace.layout.root, charts);
  await adoptWorkspace(context, workspace.layout, {
    ...{ ...adopted, configText, ownerKey },
    keyPath: keys.ownerKey,
  });
}

/**
 * Opens the workspace in a backup. @param header verified by the caller
 * @throws BackupError, BackupCommandError `backup-no-workspace`
 */
export async function openWorkspacePart(
  { signal }: Pick<CommandContext, 'signal'>,
  file: string,
  { clusterId, certificate }: BackupHeader,
  key: RecoveryKey,
): Promise<Omit<AdoptedWorkspace, 'ownerKey'> & { readonly charts: readonly PackedChart[] }> {
  const sealed: Uint8Array[] = [];
  const chunks = new DiskStreams().readChunks(file, { signal });
  for await (const { name, data } of readBackupParts(chunks, [key])) {
    if (name !== 'workspace') break;
    sealed.push(data);
  }
  const bytes = Buffer.concat(sealed);
  if (bytes.length === 0)
    throw new BackupCommandError(
      'backup-no-workspace',
      `restoring cluster ${clusterId}: the backup contains no workspace`,
    );
  const invalid = (why: string): BackupError =>
    new BackupError('backup-content-invalid', `reading the workspace in a backup: ${why}`);
  if (createHash('sha256').update(bytes).digest('hex') !== certificate.workspaceSha256)
    throw invalid('not the workspace that the owner signed');
  const text = new Secret(Buffer.from(await collect(decryptAge(one(bytes), [key]))).toString('utf8'));
  if (text.reveal().length > MAX_PART_BYTES) throw invalid('too long');
  const parsed = partShape.safeParse(parseJson(text.reveal()));
  if (!parsed.success) throw invalid('malformed');
  const masterSecret = parseMasterSecret(
    new Secret(parsed.data.masterSecret),
    'the master secret in a backup',
  );
  if (clusterIdFrom(masterSecret) !== clusterId)
    throw invalid('its master secret belongs to another cluster');
  return { masterSecret, configText: parsed.data.configuration, charts: parsed.data.charts ?? [] };
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return new Uint8Array(Buffer.concat(all));
}
