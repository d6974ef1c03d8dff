import { join } from 'node:path';
import { readBackupHeader } from '../../internal/backup/index.ts';
import { parseWrittenConfig } from '../../internal/config/index.ts';
import { formatEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import {
  createCluster,
  destroyCluster,
  parseName,
  type LocalCluster,
} from '../../internal/localmachines/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { CommandContext } from '../app/command.ts';
import type { DrillResult } from '../backup/index.ts';
import { formatTable } from '../host/index.ts';
import { layoutOf, readOwnerKeyFile } from '../workspace/index.ts';
import { localAttestation } from './attestation.ts';
import {
  awaitAgent,
  checkHost,
  createMachines,
  createTpms,
  prepareLayers,
  startMachines,
} from './create-machines.ts';
import { MiniError } from './errors.ts';
import { FIRST_MACHINE } from './machine-plan.ts';
import { readFamilies } from './ip-families.ts';
import { machineHostFrom, miniPathsFrom } from './paths.ts';
import { prepareBundle } from './up.ts';

/** The file that marks a local cluster as created by a drill. The next drill may delete such a cluster. */
const MARKER = 'drill';
const MACHINE = { name: FIRST_MACHINE, kind: 'control-plane' } as const;

/** Flags of `cluster mini restore`. */
export interface MiniRestoreOptions {
  readonly name: string;
  /** Backup file. */
  readonly from: string;
  /** File with the owner key; undefined: that of the workspace. */
  readonly ownerKey?: string;
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey?: string;
  /** Directory for the decrypted data. */
  readonly workDir?: string;
  /** Keep the machine after the drill. */
  readonly keep?: true;
  /** Build the bundle if it is missing. */
  readonly build?: true;
  /** Path of the agent's Debian package; undefined: the newest build. */
  readonly agent?: string;
}

/**
 * `cluster mini restore`: the drill. Restores a backup onto a local machine that cannot reach other networks, compares the objects and charts
 * with those in the backup, and deletes the machine. The cluster of the backup may run: the drill needs nothing of it but the file and
 * the owner key.
 */
export async function runMiniRestore(context: CommandContext, options: MiniRestoreOptions): Promise<void> {
  const { name, from } = options;
  const { host, signal } = context;
  const machines = machineHostFrom(context);
  const at = { root: miniPathsFrom(context).root, name };
  await checkHost(context, machines, 'container');
  const header = await readBackupHeader(new DiskStreams().readChunks(from, { signal }));
  await prepareBundle(context, { ...options, kubernetesVersion: header.versions.kubernetes });
  const layers = await prepareLayers(context, machines, options.agent);
  await refuseOtherUse(context, at);
  await destroyCluster(machines, { ...at, signal }); // what an interrupted drill left
  let result: DrillResult;
  try {
    await claimDirectory(context, at);
    const cluster = await createCluster(machines, { ...at, signal });
    result = await drill(context, options, { cluster, layers });
  } finally {
    // `signal` may be aborted already. The cleanup then needs a signal that nobody aborts.
    const left = new AbortController().signal;
    if (options.keep !== true)
      await host.step('mini-down', `Deleting local cluster ${name}`, () =>
        destroyCluster(machines, { ...at, signal: left }),
      );
  }
  const { compared, charts, epoch } = result;
  const { clusterId, clusterName, takenMs } = result.header;
  const takenAt = new Date(takenMs).toISOString();
  host.result(
    { clusterId, clusterName, takenAt, epoch, objects: compared, charts, kept: options.keep === true },
    () =>
      [
        formatTable(
          ['RESOURCE', 'BACKUP', 'RESTORED'],
          compared.map((each) => [printable(each.resource), String(each.backup), String(each.restored)]),
        ),
        '',
        formatTable(
          ['CHART', 'NAMESPACE', 'REVISION', 'STATUS'],
          charts.map(({ name, namespace, revision, status }) => [
            ...[printable(name), printable(namespace)],
            ...[String(revision), printable(status)],
          ]),
        ),
        '',
        `The backup of cluster ${printable(clusterName)} from ${takenAt} was restored. The objects above have the content of the backup, and the charts its revisions.`,
        options.keep === true ? `Local cluster ${name} is kept: cluster mini down --name ${name}` : '',
      ]
        .join('\n')
        .trimEnd(),
  );
}

/** @throws MiniError `mini-drill-exists` */
export async function refuseOtherUse(
  context: Pick<CommandContext, 'ports'>,
  at: { readonly root: string; readonly name: string },
): Promise<void> {
  const { files } = context.ports;
  const directory = directoryOf(at);
  if ((await files.stat(directory)) === undefined) return;
  if ((await files.stat(join(directory, MARKER))) !== undefined) return;
  throw new MiniError('mini-drill-exists', `local cluster ${at.name} already exists`);
}

/** Marks the directory before anything is in it, so that a drill that is killed at any point can be replaced. */
async function claimDirectory(
  { ports: { files } }: CommandContext,
  at: { readonly root: string; readonly name: string },
): Promise<void> {
  await files.makeDirectory(directoryOf(at));
  await files.createExclusive(join(directoryOf(at), MARKER), '');
}

function directoryOf({ root, name }: { readonly root: string; readonly name: string }): string {
  return join(root, parseName(name, 'cluster'));
}

async function drill(
  context: CommandContext,
  { from, ownerKey, recoveryKey, workDir }: MiniRestoreOptions,
  { cluster, layers }: { readonly cluster: LocalCluster; readonly layers: readonly string[] },
): Promise<DrillResult> {
  await using _lock = await cluster.lock();
  const keyPath = ownerKey ?? layoutOf(context.paths.workspace).ownerKey;
  const { pubKeyBase64 } = await readOwnerKeyFile(context, keyPath);
  const own = {
    ...context,
    paths: { ...context.paths, workspace: cluster.paths.workspace, identity: undefined },
  };
  await createTpms(context, cluster, [MACHINE]);
  const attestation = await localAttestation(context.ports.files, cluster);
  const { restoreAndCompare, restoreWorkspace } = await import('../backup/index.ts');
  await restoreWorkspace(own, from, {
    ...{ ownerKey: keyPath, recoveryKey },
    configure: (text) => localConfiguration(text, attestation),
  });
  const source = { type: 'container', layers, emptyStore: false } as const;
  const plan = { planned: [MACHINE], source, ownerKeys: [pubKeyBase64] } as const;
  const families = await readFamilies(own, { name: cluster.name });
  const [machine] = await createMachines(context, cluster, { ...plan, families });
  await startMachines(context, cluster, [machine]);
  const fingerprint = await awaitAgent(context, machine);
  const node = formatEndpoint(machine.address, PORTS.init);
  return await restoreAndCompare(own, from, { node, fingerprint, recoveryKey, workDir });
}

/** The configuration of the backup for one local machine: its software TPM, no external endpoint, and no charts. */
export function localConfiguration(text: string, attestation: Readonly<Record<string, unknown>>): string {
  const { firstNode, apiServer, ...rest } = parseWrittenConfig(text, 'cluster.yaml in the backup');
  const { endpoint: _endpoint, ...servers } = apiServer;
  const { name, runsWorkloads } = firstNode;
  const local = { ...rest, attestation, charts: [], apiServer: servers, firstNode: { name, runsWorkloads } };
  return `${JSON.stringify(local, undefined, 2)}\n`;
}
