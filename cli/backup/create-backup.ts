import { createHash } from 'node:crypto';
import {
  encodeBackupCertificate,
  recoveryKeyOfOwner,
  signBackupCertificate,
  verifyBackup,
  type BackupHeader,
} from '../../internal/backup/index.ts';
import { DiskStreams } from '../../internal/file/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { GetClusterInfoResponse } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext, StepProgress } from '../app/command.ts';
import { callCurator, readCaller, saveKnownCurators } from '../cluster/index.ts';
import { formatBytes } from '../host/index.ts';
import { isOwnerOnRecord } from '../operators/index.ts';
import { renderHeader, viewOf } from './backup-view.ts';
import { BackupCommandError } from './errors.ts';
import { sealWorkspacePart } from './workspace-part.ts';

/** For how long the certificate allows the node to begin a backup. */
const CERTIFICATE_MS = 60 * 60_000;
const FILE_MODE = 0o600;

/** Flags of `cluster backup create`. */
export interface BackupCreateOptions {
  /** Path of the new file; "-" for standard output. */
  readonly to: string;
  /** Further recovery keys ("age1…") besides that of the owner. */
  readonly recipients: readonly string[];
  /** Resolves to the ID or name of the control plane that takes the backup; undefined for any. Called when an owner may take one. */
  readonly chooseNode?: () => Promise<string | undefined>;
}

/** A new backup file. */
export interface CreatedBackup {
  readonly header: BackupHeader;
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** The value of `--to` for standard output. */
const STANDARD_OUTPUT = '-';

/** `cluster backup create`. */
export async function runBackupCreate(context: CommandContext, options: BackupCreateOptions): Promise<void> {
  const { to } = options;
  if (to === STANDARD_OUTPUT) return streamToOutput(context, options);
  const { header, sha256, sizeBytes } = await createBackup(context, options);
  context.host.result({ file: to, sizeBytes, sha256, ...viewOf(header) }, () =>
    [
      renderHeader(header),
      `File: ${to}, ${formatBytes(sizeBytes)}, SHA-256 ${sha256}`,
      `Prove that it can be restored: cluster backup verify ${to}`,
    ].join('\n'),
  );
}

/**
 * Takes a backup: an owner signs which control plane may take a backup for which recovery keys; that control plane
 * streams it here. The file appears under its name only when it is complete and verified.
 */
export async function createBackup(
  context: CommandContext,
  options: BackupCreateOptions,
): Promise<CreatedBackup> {
  const { host, ports, signal } = context;
  const { to } = options;
  if ((await ports.files.stat(to)) !== undefined)
    throw new BackupCommandError('backup-file-exists', `creating backup ${to}: the file exists`);
  const order = await prepareOrder(context, options);
  const partial = `${to}.partial`;
  return host.step('backup-create', order.title, async (progress) => {
    await receive(context, { ...order, partial, progress });
    progress.update('verifying the file');
    const streams = new DiskStreams();
    const result = await verifyBackup(streams.readChunks(partial, { signal }), order.trust);
    await streams.publish(partial, to, FILE_MODE);
    return result;
  });
}

/**
 * Writes a backup to standard output and verifies it as it passes. Written bytes cannot be taken back, so the exit code
 * tells whether the output is a valid backup.
 * @throws BackupCommandError `backup-output-unfit`; `backup-output-begun` if the stream breaks
 */
async function streamToOutput(context: CommandContext, options: BackupCreateOptions): Promise<void> {
  const { host } = context;
  const { bytes } = host;
  if (bytes === undefined)
    throw new BackupCommandError('backup-output-unfit', 'creating a backup: standard output is a terminal');
  const order = await prepareOrder(context, options);
  const created = await host.step('backup-create', order.title, async (progress) => {
    let isBegun = false;
    return callCurator(context, ({ nodeStreams }) => {
      // No retry after the first byte: another curator would start the backup again, behind the bytes that are already
      // written.
      if (isBegun) throw new BackupCommandError('backup-output-begun', 'creating a backup: its stream broke');
      const { node, certify, workspace } = order;
      const pass = async function* () {
        let sizeBytes = 0;
        const backup = { certificate: certify(), workspace };
        for await (const { data } of nodeStreams.takeBackup({ node, backup })) {
          isBegun = true;
          await bytes(data);
          sizeBytes += data.length;
          progress.update(`${formatBytes(sizeBytes)} written`);
          yield data;
        }
      };
      return verifyBackup(pass(), order.trust);
    });
  });
  const { header, sha256, sizeBytes } = created;
  const text = `${renderHeader(header)}\nWritten: ${formatBytes(sizeBytes)}, SHA-256 ${sha256}`;
  host.say('backup-written', text, { sizeBytes, sha256, ...viewOf(header) });
}

/** What the request to a control plane contains. */
interface BackupOrder {
  readonly node: string;
  readonly title: string;
  /** Creates a new certificate for each attempt, because a node accepts each certificate only once. */
  readonly certify: () => Uint8Array;
  readonly workspace: Uint8Array;
  readonly trust: Parameters<typeof verifyBackup>[1];
}

async function prepareOrder(
  context: CommandContext,
  options: Omit<BackupCreateOptions, 'to'>,
): Promise<BackupOrder> {
  const { ports } = context;
  const caller = await readCaller(context);
  if (!(await isOwnerOnRecord(context, caller)))
    throw new BackupCommandError('backup-not-owner', 'creating a backup: requires role owner');
  const { keyPem, vouchers, clusterId, pubKey } = caller;
  const info = await callCurator(context, ({ curator }) => curator.getClusterInfo({}));
  await saveKnownCurators(ports.files, caller.curatorsPath, info);
  const node = findNode(info, await options.chooseNode?.());
  const epoch = Number(info.epoch);
  const recipients = [...new Set([recoveryKeyOfOwner(keyPem).recipient, ...options.recipients])];
  const workspace = await sealWorkspacePart(context, recipients);
  const workspaceSha256 =
    workspace.length === 0 ? undefined : createHash('sha256').update(workspace).digest('hex');
  let lastIssuedMs = 0;
  const certify = (): Uint8Array => {
    const issuedMs = (lastIssuedMs = Math.max(lastIssuedMs + 1, Math.round(ports.clock.nowMs())));
    const about = {
      ...{ clusterId, epoch, nodeId: node.nodeId, recipients },
      ...(workspaceSha256 === undefined ? {} : { workspaceSha256 }),
    };
    const content = { ...about, issuedMs, endsMs: issuedMs + CERTIFICATE_MS };
    return encodeBackupCertificate(signBackupCertificate(content, { keyPem, vouchers }));
  };
  const title = `Taking a backup on ${printable(node.name)}`;
  const trust = { owners: [pubKey], clusterId, epoch };
  return { node: node.nodeId, title, certify, workspace, trust };
}

function findNode(
  { directory }: Pick<GetClusterInfoResponse, 'directory'>,
  wanted: string | undefined,
): { readonly nodeId: string; readonly name: string } {
  const found = directory.find(({ nodeId, name }) => [undefined, nodeId, name].includes(wanted));
  if (found !== undefined) return found;
  throw new BackupCommandError(
    'backup-no-control-plane',
    `creating a backup: control plane ${JSON.stringify(wanted ?? '')} not found`,
  );
}

/** Writes the stream to a file. A call that is repeated at another curator starts the file again. */
async function receive(
  context: CommandContext,
  at: BackupOrder & { readonly partial: string; readonly progress: StepProgress },
): Promise<void> {
  const streams = new DiskStreams();
  await callCurator(context, async ({ nodeStreams }) => {
    await context.ports.files.remove(at.partial);
    let sizeBytes = 0;
    const { node, certify, workspace } = at;
    for await (const { data } of nodeStreams.takeBackup({
      node,
      backup: { certificate: certify(), workspace },
    })) {
      await streams.writeAt(at.partial, sizeBytes, data);
      sizeBytes += data.length;
      at.progress.update(`${formatBytes(sizeBytes)} received`);
    }
  });
}
