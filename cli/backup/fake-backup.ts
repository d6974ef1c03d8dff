import { createHash, createPrivateKey, createPublicKey } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import {
  encodeFacts,
  recoveryKeyOfOwner,
  signBackupCertificate,
  writeBackup,
  type BackupFacts,
} from '../../internal/backup/index.ts';
import { parseDocument } from 'yaml';
import { clusterPartOf, type ClusterConfig } from '../../internal/config/index.ts';
import { generateEd25519Key } from '../../internal/crypto/index.ts';
import { nodeIdOf } from '../../internal/pki/index.ts';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { clusterIdFrom, generateWorkspace } from '../cluster/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { layoutOf, readConfig, readMasterSecret, readOwnerKey } from '../workspace/index.ts';
import { sealWorkspacePart } from './workspace-part.ts';

/** When the backup was taken. */
export const TAKEN_MS = 1_800_000_000_000;

const directories: string[] = [];

/** Deletes the files of `createBackup()`. */
export async function deleteBackups(): Promise<void> {
  for (const each of directories.splice(0)) await rm(each, { recursive: true, force: true });
}

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(bytes);
}

/** A backup of the workspace in `/owner`. */
export async function createBackup(
  change: {
    readonly clusterId?: string;
    readonly signed?: Uint8Array;
    readonly withWorkspace?: boolean;
    /** The configuration of the cluster; default: that of the workspace. */
    readonly configured?: ClusterConfig;
    readonly nodes?: BackupFacts['nodes'];
    /** Charts of cluster.yaml by name: their paths. */
    readonly charts?: Readonly<Record<string, string>>;
    /** Called before the backup is taken. */
    readonly prepare?: (files: MemoryFiles) => Promise<void>;
  } = {},
) {
  const files = new MemoryFiles();
  const owner = contextOf(files, '/owner');
  await generateWorkspace(owner, { name: 'prod' });
  const layout = layoutOf('/owner');
  const charts = Object.entries(change.charts ?? {}).map(([name, chart]) => ({ name, chart }));
  if (charts.length > 0) {
    const text = Buffer.from((await files.read(layout.config, 1e6)) ?? '').toString();
    const document = parseDocument(text);
    document.set('charts', charts);
    await files.writeAtomic(layout.config, document.toString());
  }
  await change.prepare?.(files);
  const { keyPem } = await readOwnerKey(owner, layout);
  const clusterId = change.clusterId ?? clusterIdFrom(await readMasterSecret(owner, layout));
  const recipients = [recoveryKeyOfOwner(keyPem).recipient];
  const workspace = await sealWorkspacePart(owner, recipients);
  const workspaceSha256 = createHash('sha256')
    .update(change.signed ?? workspace)
    .digest('hex');
  const nodePem = generateEd25519Key();
  const spki = createPublicKey(createPrivateKey(nodePem.reveal())).export({ format: 'der', type: 'spki' });
  const about = { clusterId, epoch: 1, nodeId: nodeIdOf(spki), recipients };
  const header = {
    ...{
      clusterId,
      epoch: 1,
      clusterName: 'prod',
      takenMs: TAKEN_MS,
      revisions: { state: '7', kubernetes: '9' },
    },
    ...{ versions: { agent: '1.0.0', kubernetes: 'v1.37.2' }, signer: spki.toString('base64') },
    certificate: signBackupCertificate(
      { ...about, issuedMs: TAKEN_MS - 1, endsMs: TAKEN_MS + 1, workspaceSha256 },
      { keyPem, vouchers: [] },
    ),
  };
  const names = ['configuration', 'bundle', 'shared-keys', 'state-etcd', 'kubernetes-etcd', 'facts'] as const;
  const configuration = JSON.stringify(clusterPartOf(change.configured ?? (await readConfig(files, layout))));
  const etcd = { revision: '7' };
  const facts = encodeFacts({ state: etcd, kubernetes: etcd, ...(change.nodes && { nodes: change.nodes }) });
  const contentOf = (name: string): Uint8Array =>
    name === 'facts' ? facts : Buffer.from(name === 'configuration' ? configuration : name);
  const parts = names.map((name) => ({ name, content: one(contentOf(name)) }));
  const first =
    change.withWorkspace === false ? [] : [{ name: 'workspace', content: one(workspace) } as const];
  const bytes = await buffer(writeBackup(header, [...first, ...parts], nodePem));
  const directory = await mkdtemp(join(tmpdir(), 'cluster-backup-'));
  directories.push(directory);
  const file = join(directory, 'prod.backup');
  await writeFile(file, bytes);
  return { files, file, bytes, host: owner.host };
}
