import { mapConcurrently, withTimeout } from '../../internal/cleanup/index.ts';
import { formatDuration, MINUTE_MS } from '../../internal/clock/index.ts';
import { attestationSettings } from '../../internal/config/index.ts';
import type { ClusterFacts } from '../../internal/doctor/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { NodeState, type Node } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { readPart } from '../cluster/index.ts';
import { judgeFresh, readVerifier, type Judgement, type Verifier } from '../nodes/index.ts';
import { plain } from './read-records.ts';

/** A quote takes a TPM a second or less; a busy one has a queue. */
const NODE_MS = 20_000;
/** The nodes of a large cluster that are not asked within this time are not judged. */
const TOTAL_MS = 2 * MINUTE_MS;
/** More than for other questions: each node waits for its own TPM. */
const AT_ONCE = 16;
const MAX_REGISTERS = 32;

type Evidence = NonNullable<ClusterFacts['evidence']>;
type EvidenceFacts = Extract<Evidence[number]['answer'], { ok: true }>['value'];

/**
 * Requests fresh evidence of nodes and judges it as `cluster verify NODE` does, but saves nothing about the machines.
 * @param only the curators to ask through ("HOST:PORT")
 */
export async function askEvidence(
  context: CommandContext,
  { nodes, only }: { readonly nodes: readonly Node[]; readonly only: readonly string[] },
): Promise<Evidence> {
  const { clock } = context.ports;
  const members = nodes.filter(({ state }) => state === NodeState.UP);
  const untilMs = clock.monotonicMs() + TOTAL_MS;
  const verifier = await readPart(context, () => readVerifier(context));
  return mapConcurrently(members, AT_ONCE, async (given) => {
    const node = { ...given, name: printable(given.name) };
    const read = async (): Promise<EvidenceFacts> => {
      if (!verifier.ok) throw new Error(verifier.error);
      const leftMs = untilMs - clock.monotonicMs();
      if (leftMs <= 0)
        throw new Error(`not asked: the evidence of other nodes took ${formatDuration(TOTAL_MS)}`);
      const timeoutMs = Math.min(NODE_MS, leftMs);
      const limit = { what: `evidence of ${node.name}`, ms: timeoutMs, clock, signal: context.signal };
      const judged = await withTimeout(limit, (signal) =>
        judgeFresh({ ...context, signal }, verifier.value, { node, asked: node.name, timeoutMs, only }),
      );
      return evidenceFrom(judged, verifier.value);
    };
    return { node: node.name, answer: plain(await readPart(context, read)) };
  });
}

function evidenceFrom(
  { variant, profile, verdict, code, reason = '', registers }: Judgement,
  { config }: Verifier,
): EvidenceFacts {
  const differing = registers.filter((row) => row.verdict === 'differs').map(({ name }) => printable(name));
  const { lockPcr } = attestationSettings(config.attestation);
  return {
    variant: printable(variant, { maxChars: 64 }),
    ...{ profile: printable(profile), isAccepted: verdict === 'verified' },
    ...(code !== undefined && {
      refusal: { code, reason, differing: differing.slice(0, MAX_REGISTERS), lockRegister: `pcr${lockPcr}` },
    }),
  };
}
