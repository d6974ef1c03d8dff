import type { Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { ClusterConfig } from '../../internal/config/index.ts';
import type { ExitName } from '../../internal/errors/index.ts';
import type { CommandContext } from '../app/command.ts';
import { findNode } from '../cluster/index.ts';
import { judgeFresh, readVerifier } from './fresh-evidence.ts';
import { renderReport, type VerifyReport } from './verify-report.ts';

const ANSWER_MS = 60_000;
const FIRST_SEEN =
  'This workspace saw this machine for the first time: only the record of the cluster names it. Compare its identity with what you know of the machine. From now on, another machine is refused.';

/** Flags of `cluster verify`. */
export interface VerifyOptions {
  /**
   * Accept that the record of the cluster names another machine than this workspace knew under this name, and
   * expect that machine from now on.
   */
  readonly acceptChange: boolean;
}

/**
 * `cluster verify NODE`: requests evidence for a fresh nonce and verifies it on this workstation, with the
 * configuration of the workspace (or of the cluster) and the machine that this workspace knows. If the node's record
 * identifies another machine, this is reported as a refusal.
 */
export async function runVerifyNode(
  context: CommandContext,
  name: string,
  { acceptChange }: VerifyOptions,
): Promise<ExitName> {
  const verifier = await readVerifier(context);
  const { config, pins } = verifier;
  const node = await findNode(context, name);
  const judged = await context.host.step(
    'verify-evidence',
    `Requesting fresh evidence from ${node.name}`,
    () => judgeFresh(context, verifier, { node, asked: name, acceptChange, timeoutMs: ANSWER_MS }),
  );
  const isVerified = judged.verdict === 'verified';
  const isNamed = pins.of(node.name)?.identity !== undefined || isInInventory(node, config);
  const changes = pins.contradictions(node);
  const is = { changes: changes.length > 0, complete: pins.isComplete(node), named: isNamed };
  const state = pinState(is, isVerified);
  const report: VerifyReport = {
    ...judged,
    pin: judged.code === 'nodes-machine-changed' ? 'changed' : state,
    warnings: [...judged.warnings, ...(isVerified && !isNamed ? [FIRST_SEEN] : [])],
  };
  if (isVerified && state !== 'unchanged') await pins.save(node);
  context.host.result(report, () => renderReport(report));
  return report.verdict === 'verified' ? 'ok' : 'refused';
}

function isInInventory({ name, admission }: Node, { join }: ClusterConfig): boolean {
  return join.inventory.some((entry) => entry.name === name && entry.identity === admission?.identity);
}

function pinState(
  is: { readonly changes: boolean; readonly complete: boolean; readonly named: boolean },
  isVerified: boolean,
): VerifyReport['pin'] {
  if (is.changes) return isVerified ? 'accepted' : 'changed';
  if (is.complete) return 'unchanged';
  if (!is.named) return 'first seen';
  return isVerified ? 'completed' : 'unchanged';
}
