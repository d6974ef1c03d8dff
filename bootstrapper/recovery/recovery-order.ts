import { z } from 'zod';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { ETCD_NAMES, type EtcdName } from '../consensus/index.ts';
import { AGENT_PATHS } from '../nodestate/index.ts';

const MAX_BYTES = 64 * 1024;
const names = z.array(z.enum(ETCD_NAMES));
const shape = z.strictObject({
  version: z.literal(1),
  clusterName: z.string(),
  skipChecks: z.literal(true).optional(),
  decided: names.optional(),
  done: names.optional(),
});

/** A request to recover the quorum, as it is on disk. */
export interface RecoveryOrder {
  readonly clusterName: string;
  /** The operator keeps the data of this machine although it was found to differ from that of the majority. */
  readonly skipChecks: boolean;
  /**
   * The etcd clusters to recover; undefined until the agent has decided that. It decides only once, because
   * the recovery of the first etcd cluster would change the result of a second decision.
   */
  readonly decided: readonly EtcdName[] | undefined;
  /** The etcd clusters that are already recovered. */
  readonly done: readonly EtcdName[];
}

/**
 * The request on disk; undefined without one. Throws when the file is invalid, because an invalid file is
 * still a request.
 */
export async function readRecoveryOrder(files: FilePort): Promise<RecoveryOrder | undefined> {
  const text = await readText(files, AGENT_PATHS.recoveryOrder, MAX_BYTES);
  if (text === undefined) return undefined;
  const { clusterName, skipChecks, decided, done } = shape.parse(JSON.parse(text));
  return { clusterName, skipChecks: skipChecks ?? false, decided, done: done ?? [] };
}

/** Replaces the request on disk. */
export async function saveRecoveryOrder(files: FilePort, order: RecoveryOrder): Promise<void> {
  await files.writeAtomic(AGENT_PATHS.recoveryOrder, encodeRecoveryOrder(order));
}

/** The request as JSON. */
export function encodeRecoveryOrder({ clusterName, skipChecks, decided, done }: RecoveryOrder): string {
  const optional = { ...(skipChecks && { skipChecks }), ...(decided !== undefined && { decided, done }) };
  return `${JSON.stringify({ version: 1, clusterName, ...optional })}\n`;
}
