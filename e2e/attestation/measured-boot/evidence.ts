import assert from 'node:assert/strict';
import type { KeyObject } from 'node:crypto';
import { InitApi } from '../../../initproto/gen/init_pb.js';
import {
  atlsClientUpgrade,
  INIT_CONTEXT,
  RotatingKeys,
  type AtlsTimers,
  type AttestedPeer,
} from '../../../internal/atls/index.ts';
import type { Policy, Verdict } from '../../../internal/attestation/index.ts';
import { OwnerKeyIssuer } from '../../../internal/attestation/ownerkey/index.ts';
import {
  createValidators,
  parsePolicy,
  standardValidators,
} from '../../../internal/attestation/policy/index.ts';
import { SystemClock } from '../../../internal/clock/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { createClient, RpcChannel } from '../../../internal/rpc/index.ts';
import { Secret } from '../../../internal/secret/index.ts';

/** Long timeouts, because an emulated machine on a busy host is ten times slower. */
const PATIENT: AtlsTimers = { tlsMs: 60_000, helloMs: 60_000, wholeMs: 300_000, lingerMs: 500 };
const CALL_MS = 300_000;
const MOST_TRIES = 30;
const OF_TIME: ReadonlySet<string> = new Set([
  'atls-timeout',
  'atls-alert-timeout',
  'atls-truncated',
  'atls-connection',
]);
const clock = new SystemClock();
const signal = new AbortController().signal;

/** A register value as hexadecimal text; empty for a missing register. */
export const hex = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString('hex');

/** The result of judging the evidence of a machine. */
export type Judgement =
  | { readonly verdict: Verdict }
  | { readonly code: string; readonly details: Readonly<Record<string, unknown>> };

/** Returns the verdict. Throws if the evidence was refused. */
export function verdictOf(judgement: Judgement): Verdict {
  assert.ok('verdict' in judgement, `refused: ${JSON.stringify(judgement)}`);
  return judgement.verdict;
}

/** A policy that requires these PCR values. */
export function measuredPolicy(wanted: ReadonlyMap<number, Uint8Array>): Policy {
  const registers = Object.fromEntries(
    [...wanted].map(([pcr, value]) => [`pcr${pcr}`, { expected: hex(value) }]),
  );
  return atFirstContact({
    name: 'measured',
    profile: 'measured',
    registers,
    tpm: { requiredPcrs: [...wanted.keys()] },
  });
}

/** A policy that requires proof of the machine’s identity, but no PCR values. */
export function identityPolicy(): Policy {
  return atFirstContact({ name: 'identity', profile: 'identity', registers: {}, tpm: { requiredPcrs: [0] } });
}

/**
 * The policy of the CLI at its first contact with a machine: any attestation key is accepted, but the
 * measurements must match.
 */
function atFirstContact(document: Readonly<Record<string, unknown>>): Policy {
  const policy = parsePolicy({ ...document, machines: 'any-proved' });
  assert.ok(policy.tpm);
  return { ...policy, machines: 'any', tpm: { ...policy.tpm, attestationKeys: 'enrolling' } };
}

/**
 * Asks the agent for evidence. The agent has its normal time limits, so a slow emulated machine may exceed them at
 * first. After a timeout this function tries again, because the agent is faster after its first quote.
 */
export async function judge(owner: KeyObject, endpoint: string, policy: Policy): Promise<Judgement> {
  for (let tries = 1; ; tries++) {
    const judgement = await judgeOnce(owner, endpoint, policy);
    if (!('code' in judgement) || !isOfTime(judgement.code) || tries === MOST_TRIES) return judgement;
  }
}

function isOfTime(codes: string): boolean {
  return codes.split(' ').some((code) => OF_TIME.has(code));
}

/** Makes one connection with fresh evidence, and one call over it. */
async function judgeOnce(owner: KeyObject, endpoint: string, policy: Policy): Promise<Judgement> {
  const upgrade = atlsClientUpgrade({
    trust: {
      trust: 'mutual',
      shows: [new OwnerKeyIssuer({ privKey: new Secret(owner) })],
      accepts: createValidators(['tpm'], standardValidators({ ownerKeys: [] })),
      rules: () => ({ policy, collateral: { tpm: { attestationKeys: new Map() } } }),
    },
    context: INIT_CONTEXT,
    keys: new RotatingKeys({ clock }),
    clock,
    timers: PATIENT,
  });
  using channel = new RpcChannel<AttestedPeer>({ endpoint, upgrade });
  try {
    await createClient(InitApi, channel).describe({ clientVersion: '0.1.0' }, { signal, timeoutMs: CALL_MS });
  } catch (error) {
    const codes: string[] = [];
    let details: Readonly<Record<string, unknown>> = {};
    for (let at = findCoded(error); at !== undefined; at = findCoded(at.cause)) {
      codes.push(at.code);
      details = { ...at.details, ...details };
    }
    return { code: codes.join(' ') || String(error), details };
  }
  assert.ok(channel.peer);
  return { verdict: channel.peer.verdict };
}
