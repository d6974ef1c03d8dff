import { randomBytes } from 'node:crypto';
import type { Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import {
  bindingOfVerifyRequest,
  type Collateral,
  VERIFY_NONCE_BYTES,
} from '../../internal/attestation/index.ts';
import type { ClusterConfig } from '../../internal/config/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readCollateral } from '../attest/index.ts';
import { callCurator, readCaller } from '../cluster/index.ts';
import { fileOrClusterConfiguration } from '../configuration/index.ts';
import { judge } from './judge-evidence.ts';
import { answerContradictions, inventoryContradictions, MachinePins } from './machine-pins.ts';
import type { VerifyReport } from './verify-report.ts';

/** A report without the comparison with the machine that the workspace knows. */
export type Judgement = Omit<VerifyReport, 'pin'>;

/** What this workstation verifies evidence of nodes with: the same for all nodes. */
export interface Verifier {
  readonly clusterId: string;
  /** The configuration of the workspace, or that of the cluster. */
  readonly config: ClusterConfig;
  /** The collateral of the workspace. */
  readonly collateral: Collateral;
  /** The machines that the workspace knows. */
  readonly pins: MachinePins;
}

/**
 * Reads what evidence of nodes is verified with.
 * @throws NodesError `nodes-pin-damaged`; ConfigError; errors of curators
 */
export async function readVerifier(context: CommandContext): Promise<Verifier> {
  const { clusterId } = await readCaller(context);
  const config = await fileOrClusterConfiguration(context);
  const { forValidators: collateral } = await readCollateral(context.ports.files, context.paths.workspace);
  return { clusterId, config, collateral, pins: await MachinePins.read(context) };
}

/** Whose evidence to request, and how. */
interface EvidenceRequest {
  /** The record of the node. */
  readonly node: Node;
  /** The name or ID under which the record was requested. */
  readonly asked: string;
  /** Accept that the record names another machine than the workspace knew. */
  readonly acceptChange?: boolean;
  readonly timeoutMs: number;
  /** Calls only the curators at these endpoints ("HOST:PORT"); by default any curator of the cluster. */
  readonly only?: readonly string[];
}

/**
 * Requests evidence of a node for a fresh nonce and verifies it. The curator forwards the evidence and can neither forge nor
 * replay it. Refused evidence is a result, not an error.
 * @throws RpcError, ClusterError or the curator's own codes if there is no evidence
 */
export async function judgeFresh(
  context: CommandContext,
  { clusterId, config, collateral, pins }: Verifier,
  { node, asked, acceptChange = false, timeoutMs, only }: EvidenceRequest,
): Promise<Judgement> {
  const nonce = new Uint8Array(randomBytes(VERIFY_NONCE_BYTES));
  const { variant, evidence } = await callCurator(
    context,
    ({ nodeStreams }) => nodeStreams.getEvidence({ node: node.nodeId, nonce }, { timeoutMs }),
    { ...(only && { only }) },
  );
  const fixed = [...answerContradictions(asked, node), ...inventoryContradictions(node, config.join)];
  return judge({
    ...{ node, config, clusterId, collateral, variant, evidence },
    binding: bindingOfVerifyRequest({ clusterId, nodeId: node.nodeId, nonce }),
    nowMs: context.ports.clock.nowMs(),
    contradictions: acceptChange ? fixed : [...fixed, ...pins.contradictions(node)],
  });
}
