import { DEFAULT_KUBERNETES_VERSION } from '../../../internal/bundle/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { attestationTemplate } from '../../../internal/config/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { FakeCommands, MemoryFiles } from '../../../internal/testing/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { RecordingHost } from '../../host/fake-host.ts';
import { BLOB, BLOB_HASH, FakeNode, MANIFEST } from './fake-node.ts';
import { generateWorkspace, type InitOptions } from '../index.ts';
import { noPassphrases } from '../../workspace/fake-passphrases.ts';

export const NONE = { kind: 'none' } as const;
export const ROOT = '/desk';
export const CACHE = '/cache';

/**
 * Pauses between two attempts are shorter than this. A longer sleep is a time limit, which a busy test
 * machine must not reach.
 */
const SHORTEST_LIMIT_MS = 5_000;

/** Shortens pauses and time limits; real sockets still need real time. */
export class HastyClock extends SystemClock {
  override async sleep(ms: number, signal: AbortSignal): Promise<void> {
    await super.sleep(ms < SHORTEST_LIMIT_MS ? ms / 50 : ms / 4, signal);
  }
}

export const asProcess = async (files: MemoryFiles, startTicks: number): Promise<void> => {
  await files.makeDirectory('/proc/self');
  await files.makeDirectory('/proc/sys/kernel/random');
  await files.makeDirectory('/etc');
  const stat = `77 (node (x)) S ${Array(18).fill('0').join(' ')} ${startTicks} 0`;
  await files.writeAtomic('/proc/self/stat', stat);
  await files.writeAtomic('/proc/sys/kernel/random/boot_id', 'boot-1');
  await files.writeAtomic('/etc/machine-id', 'machine-1');
};

export function contextOf(
  files: CommandContext['ports']['files'],
  signal = new AbortController().signal,
): CommandContext & { readonly host: RecordingHost } {
  return {
    host: new RecordingHost(),
    ports: { files, commands: new FakeCommands(), clock: new HastyClock() },
    paths: { cache: CACHE, data: '/data', config: '/config', workspace: ROOT },
    passphrases: noPassphrases,
    env: { USER: 'me' },
    signal,
  };
}

export async function prepareWorkspace(files: MemoryFiles): Promise<string> {
  await asProcess(files, 1);
  await files.makeDirectory(`${CACHE}/bundles`);
  await files.writeAtomic(
    `${CACHE}/bundles/kubernetes-${DEFAULT_KUBERNETES_VERSION}-linux-amd64.json`,
    MANIFEST,
  );
  const { ownerKey } = await generateWorkspace(contextOf(files), {
    name: 'prod',
    attestation: attestationTemplate(['tpm', 'machine-key']),
  });
  return ownerKey.pubKeyBase64;
}

export async function start(): Promise<{ files: MemoryFiles; node: FakeNode; options: InitOptions }> {
  const files = new MemoryFiles();
  const node = await FakeNode.start([await prepareWorkspace(files)]);
  node.blobs.set(BLOB_HASH, BLOB);
  return { files, node, options: { node: node.endpoint, fingerprint: node.fingerprint, charts: NONE } };
}

export const kubeconfigOf = async (files: FilePort): Promise<string> =>
  Buffer.from((await files.read(`${ROOT}/kubeconfig`, 1e6)) ?? '').toString('utf8');

export const stateOf = async (
  files: FilePort,
): Promise<{
  init?: {
    stage: string;
    request?: unknown;
    result?: { clusterCaPem: string; epoch: string; clusterId: string };
  };
}> =>
  JSON.parse(Buffer.from((await files.read(`${ROOT}/state.json`, 1e7)) ?? '{}').toString('utf8')) as never;
