import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  type EtcdSurveySchema,
  RecoverQuorumResponseSchema,
  SurveyQuorumResponseSchema,
  type SurveyQuorumResponse,
} from '../../initproto/gen/machine_pb.js';
import { CodedError } from '../../internal/errors/index.ts';
import { RpcError } from '../../internal/rpc/index.ts';
import { DoctorError } from '../../internal/doctor/index.ts';
import { FakeClock, FakeCommands, MemoryFiles } from '../../internal/testing/index.ts';
import type { CommandContext } from '../app/command.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { recoverQuorum } from './recover-quorum.ts';
import { runRecoverSpace } from './recover-space.ts';
import { noPassphrases } from '../workspace/fake-passphrases.ts';

type Survey = MessageInitShape<typeof SurveyQuorumResponseSchema>;
type Etcd = MessageInitShape<typeof EtcdSurveySchema>;

function etcdOf(name: string, epoch: bigint, hasLeader: boolean): Etcd {
  const own = { endpoint: '127.0.0.1:2379', raftIndex: 120n, hasLeader };
  return { name, epoch, own, others: [{ endpoint: '192.0.2.2:2379', hasLeader: false }] };
}

const lost: Survey = {
  clusterName: 'blue',
  nodeName: 'cp1',
  etcd: ['state', 'kubernetes'].map((name) => etcdOf(name, 1n, false)),
  losses: ['whatever was decided after raft index 120 of this member'],
};
const after = (state: Etcd, kubernetes: Etcd): Survey => ({ ...lost, etcd: [state, kubernetes], losses: [] });
const alone = after(etcdOf('state', 2n, true), etcdOf('kubernetes', 2n, true));
const away = new RpcError('rpc-unreachable', 'asking the agent');
const reading = 'consensus-not-recoverable';
/** The error of an agent that has just started and has not read its cluster yet. */
const blank = new CodedError(
  {
    [reading]: {
      fault: 'operator',
      exit: 'precondition',
      retryable: false,
      meaning: 'It has none.',
      fix: '-',
    },
  },
  reading,
  'looking for data of etcd',
);

/** An agent that answers each survey with the next of these answers, and then repeats the last one. */
function setUp(...surveys: (Survey | CodedError)[]) {
  const clock = new FakeClock();
  const host = new RecordingHost();
  const ordered: string[] = [];
  const context: CommandContext & { readonly host: RecordingHost } = {
    host,
    ports: { files: new MemoryFiles(), commands: new FakeCommands(), clock },
    paths: { cache: '/cache', data: '/data', config: '/config', workspace: '/desk' },
    passphrases: noPassphrases,
    env: {},
    signal: new AbortController().signal,
  };
  let unsound: string | undefined;
  const requireSound = async (doing: string): Promise<void> => {
    if (unsound !== undefined) throw new DoctorError('doctor-change-unsafe', `${doing}: ${unsound}`);
  };
  const machine = {
    surveyQuorum: async (): Promise<SurveyQuorumResponse> => {
      const next = surveys.length > 1 ? surveys.shift() : surveys[0];
      if (next instanceof CodedError) throw next;
      return create(SurveyQuorumResponseSchema, next ?? {});
    },
    recoverQuorum: async ({ clusterName = '', skipChecks = false }) => {
      ordered.push(skipChecks ? `${clusterName}, although damaged` : clusterName);
      return create(RecoverQuorumResponseSchema);
    },
  };
  /** Runs the command, and advances the clock until the command has ended. */
  const run = async (
    confirmed: string | undefined,
    { dryRun = false, skipChecks = false } = {},
  ): Promise<unknown> => {
    let isOver = false;
    const ended = recoverQuorum(context, { machine, requireSound }, { confirmed, dryRun, skipChecks }).then(
      () => undefined,
      (error: unknown) => error,
    );
    void ended.then(() => (isOver = true));
    while (!isOver) {
      await clock.advance(1_000);
      await Promise.resolve();
    }
    return ended;
  };
  return { host, ordered, run, damageDisk: (why: string) => void (unsound = why) };
}

describe('cluster recover quorum', () => {
  test.each([undefined, '', 'Blue', 'blue ', 'green'])(
    'changes nothing if the confirmation is %j',
    async (confirmed) => {
      const { run, ordered, host } = setUp(lost);
      expect(await run(confirmed)).toMatchObject({ code: 'recover-not-confirmed' });
      expect(ordered).toEqual([]);
      const [said] = host.records;
      expect(said?.kind === 'say' && said.text).toMatch(/120[\s\S]*<none>[\s\S]*after raft index 120/);
    },
  );

  test('only shows the survey of etcd with --dry-run', async () => {
    const { run, ordered, host } = setUp(lost);
    expect(await run('blue', { dryRun: true })).toBeUndefined();
    expect(ordered).toEqual([]);
    expect(host.answered).toMatchObject({ dryRun: true, losses: lost.losses });
  });

  test('is refused on a machine whose data was found to be wrong, unless the operator keeps this data', async () => {
    const damaged = { ...lost, damage: ['state etcd: this member had other content than n2, n3'] };
    const { run, ordered, host } = setUp(damaged);
    expect(await run('blue')).toMatchObject({
      code: 'recover-damaged',
      message: expect.stringContaining('other content than n2, n3') as unknown,
    });
    expect(ordered).toEqual([]);
    expect(await run('blue', { dryRun: true })).toBeUndefined();
    expect(host.answered).toMatchObject({ damage: damaged.damage });
    const again = setUp(damaged, alone);
    expect(await again.run('blue', { skipChecks: true })).toBeUndefined();
    expect(again.ordered).toEqual(['blue, although damaged']);
  });

  test('is refused on a machine that could not keep what it recovers, before anything is ordered', async () => {
    const full = '/var/lib/cluster of n1 has 5 B free (5%)';
    const { run, ordered, damageDisk } = setUp(lost);
    damageDisk(full);
    expect(await run('blue')).toMatchObject({
      code: 'doctor-change-unsafe',
      message: `recovering blue: ${full}`,
    });
    expect(ordered).toEqual([]);
    expect(await run('blue', { dryRun: true })).toBeUndefined();
    const again = setUp(lost, alone);
    again.damageDisk(full);
    expect(await again.run('blue', { skipChecks: true })).toBeUndefined();
    expect(again.ordered).toHaveLength(1);
    const going = setUp({ ...lost, isOrdered: true }, alone);
    going.damageDisk(full);
    expect(await going.run(undefined)).toBeUndefined();
  });

  test('is refused with the reason of the agent, even if it is confirmed', async () => {
    const { run, ordered } = setUp({ ...lost, refusals: ['etcd has a leader'] });
    expect(await run('blue')).toMatchObject({
      code: 'recover-refused',
      message: expect.stringContaining('etcd has a leader') as unknown,
    });
    expect(ordered).toEqual([]);
  });

  test('orders the recovery, waits while the agent restarts, and shows the next step', async () => {
    const { run, ordered, host } = setUp(lost, away, away, blank, { ...lost, isOrdered: true }, alone);
    expect(await run('blue')).toBeUndefined();
    expect(ordered).toEqual(['blue']);
    expect(host.answered).toMatchObject({ etcd: [{ epoch: 2, own: { hasLeader: true } }, { epoch: 2 }] });
  });

  test.each([
    {
      name: 'one etcd is not serving yet',
      on: after(etcdOf('state', 2n, true), etcdOf('kubernetes', 1n, false)),
    },
    { name: 'the agent has not carried out the order', on: { ...alone, isOrdered: true } },
    {
      name: 'no etcd runs in a newer epoch',
      on: after(etcdOf('state', 1n, true), etcdOf('kubernetes', 1n, true)),
    },
  ])('waits while $name', async ({ on }) => {
    const { run } = setUp(lost, on);
    expect(await run('blue')).toMatchObject({ code: 'recover-timeout' });
  });

  test('ends when the only lost etcd is recovered', async () => {
    const whole = etcdOf('state', 1n, true);
    const { run } = setUp(
      { ...lost, etcd: [whole, etcdOf('kubernetes', 1n, false)] },
      after(whole, etcdOf('kubernetes', 2n, true)),
    );
    expect(await run('blue')).toBeUndefined();
  });

  test('is refused on a machine without etcd data', async () => {
    const { run, ordered } = setUp(blank);
    expect(await run('blue')).toBe(blank);
    expect(ordered).toEqual([]);
  });

  test('waits for a recovery that was already ordered, and does not order it again', async () => {
    const { run, ordered } = setUp({ ...lost, isOrdered: true }, alone);
    expect(await run(undefined)).toBeUndefined();
    expect(ordered).toEqual([]);
  });

  test('reports why the machine gave up', async () => {
    const { run } = setUp(lost, away, { ...lost, lastFailure: 'another one has more' });
    expect(await run('blue')).toMatchObject({ code: 'recover-failed', message: 'another one has more' });
  });

  test('times out with its own code', async () => {
    const { run } = setUp(lost, away);
    expect(await run('blue')).toMatchObject({ code: 'recover-timeout' });
  });
});

describe('runRecoverSpace()', () => {
  test('asks at a terminal before it frees space, and not in a script', async () => {
    const context = contextOf(new MemoryFiles(), '/w');
    const terminal = { ...context, host: new RecordingHost({ answer: () => false }) };
    const flags = { dryRun: false, yes: false };
    await expect(runRecoverSpace(terminal, flags)).rejects.toMatchObject({ code: 'loss-declined' });
    // Without an answer it goes on, and finds that this machine is no control plane.
    const goesOn = { code: 'recover-not-control-plane' };
    await expect(runRecoverSpace(context, flags)).rejects.toMatchObject(goesOn);
    await expect(runRecoverSpace(terminal, { ...flags, yes: true })).rejects.toMatchObject(goesOn);
    await expect(runRecoverSpace(terminal, { dryRun: true, yes: false })).rejects.toMatchObject(goesOn);
  });
});
