import { AuditLog } from '../../../internal/auditlog/index.ts';
import { EventValue } from '../../../internal/event/index.ts';
import { IDENTITIES_PREFIX, NODES_PREFIX } from '../../../internal/records/index.ts';
import { createMemoryLogger, FakeClock, MemoryEtcd } from '../../../internal/testing/index.ts';
import { FakeOwner } from '../../ownerdocs/fake-owner.ts';
import { Admissions } from './admissions.ts';
import type { Applicant } from './applicant.ts';
import { WriteBudget } from '../requests/write-budget.ts';
import { MembershipCommits } from './membership-commits.ts';
import { JoinFeed } from '../requests/join-feed.ts';
import { runSweep } from '../requests/open-requests.ts';
import type { ActiveConfiguration } from './active-configuration.ts';
import type { JoinPolicy } from './decide-join.ts';
import { RefusalAudit } from '../requests/refusal-audit.ts';

const never = new AbortController().signal;
export const MINUTE_MS = 60_000;
/** The hash of the configuration in every `AdmissionHarness`. */
export const POLICY_SHA256 = 'ab'.repeat(32);
export const BUDGET = { size: 1_200, periodMs: 10 * MINUTE_MS };

interface HarnessParts {
  readonly etcd: MemoryEtcd;
  readonly clock: FakeClock;
  readonly owner: FakeOwner;
}

function newWorld(): HarnessParts {
  const clock = new FakeClock();
  return { etcd: new MemoryEtcd(), clock, owner: new FakeOwner({ clock }) };
}

/** The admission part of the join service of one control plane, with its watches running, on an in-memory etcd. */
export class AdmissionHarness implements Disposable {
  readonly etcd: MemoryEtcd;
  readonly clock: FakeClock;
  readonly owner: FakeOwner;
  readonly admissions: Admissions;
  readonly commits: MembershipCommits;
  readonly refusals: RefusalAudit;
  readonly feed: JoinFeed;
  readonly #configuration = new EventValue<ActiveConfiguration>();
  readonly #stop = new AbortController();

  /** @param world the etcd and clock that several join services share */
  constructor(policy: Partial<JoinPolicy> = {}, world: HarnessParts = newWorld()) {
    this.etcd = world.etcd;
    this.clock = world.clock;
    this.owner = world.owner;
    const { log } = createMemoryLogger();
    const { etcd, clock } = this;
    const audit = new AuditLog({ etcd });
    const requests = new AuditLog({ etcd, log: 'requests' });
    const budget = new WriteBudget({ clock, ...BUDGET });
    this.feed = new JoinFeed({ etcd, log });
    const ownerDocs = this.owner.ownerDocs(etcd);
    const deciding = { etcd, audit, ownerDocs, clock, nodeId: 'n' };
    const ports = { ...deciding, feed: this.feed, configuration: this.#configuration };
    this.admissions = new Admissions({ ...ports, requests, budget });
    this.commits = new MembershipCommits(ports);
    this.refusals = new RefusalAudit({ requests, clock, budget, nodeId: 'n' });
    this.decree(policy);
    for (const run of [this.feed.run(this.#stop.signal), runSweep({ ...ports, log }, this.#stop.signal)])
      run.catch(() => undefined);
  }

  /** Replaces the current policy. */
  decree(policy: Partial<JoinPolicy>): void {
    const whole = { policy: 'approve' as const, inventory: [], version: 'v', ...policy };
    this.#configuration.set({
      policy: whole,
      revision: 1n,
      sha256: POLICY_SHA256,
    } as unknown as ActiveConfiguration);
  }

  async keys(prefix: string): Promise<readonly string[]> {
    const { entries } = await this.etcd.list(prefix, { signal: never });
    return entries.map(({ key }) => key);
  }

  async members(): Promise<number> {
    const all = await Promise.all(
      [NODES_PREFIX, IDENTITIES_PREFIX, 'node-names/'].map((each) => this.keys(each)),
    );
    return all.flat().length;
  }

  [Symbol.dispose](): void {
    this.#stop.abort(new Error('the test is over'));
  }
}

export function applicant(index: number, over: Partial<Applicant['machine']> = {}, claimed = {}): Applicant {
  const identity = `machine-key:${index.toString(16).padStart(64, '0')}`;
  return {
    nodeId: `node-${index}`,
    pubKeyDer: Buffer.from(`key ${index}`),
    facts: [],
    machine: {
      identity,
      proof: 'unproved',
      variant: 'machine-key',
      profile: 'identity',
      evidenceDigest: 'd'.repeat(64),
      policyVersion: 'p',
      ...over,
    },
    claimed: {
      hostname: `host-${index}`,
      address: '192.0.2.1',
      name: '',
      roles: [],
      agentVersion: '',
      clockOffsetMs: 0,
      ...claimed,
    },
  };
}

/** A policy whose inventory lists only this machine. */
export const listing = (index: number) => ({
  policy: 'inventory' as const,
  inventory: [
    {
      identity: applicant(index).machine.identity,
      name: `w-${index}`,
      roles: ['worker' as const],
      labels: {},
    },
  ],
});
/** The evidence identity that the test machines show at a commit. */
export const EVIDENCE = { akName: undefined, variant: 'machine-key' };
export const at = (applicant: Applicant, source = '192.0.2.1') => ({ ...applicant, source });
