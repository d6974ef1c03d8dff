import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  EnrolmentEvent_Stage as Stage,
  EnrolmentEventSchema,
  type EnrolmentEvent,
} from '../../../initproto/gen/machine_pb.js';
import { RpcError } from '../../../internal/rpc/index.ts';
import { FakeClock, FakeCommands, MemoryFiles, settle } from '../../../internal/testing/index.ts';
import { RecordingHost } from '../../host/fake-host.ts';
import { follow } from './join.ts';

const broken = new RpcError('rpc-unreachable', 'following the machine');

/** A machine that sends these streams one after the other, and is unreachable after the last one. */
function createMachine(
  ...streams: readonly (readonly (Stage | MessageInitShape<typeof EnrolmentEventSchema>)[])[]
) {
  const left = [...streams];
  return {
    watchEnrolment: async function* (): AsyncGenerator<EnrolmentEvent> {
      for (const sent of left.shift() ?? [])
        yield create(EnrolmentEventSchema, typeof sent === 'number' ? { stage: sent } : sent);
      throw broken;
    },
  };
}

function createFollower() {
  const clock = new FakeClock();
  const stop = new AbortController();
  const seen = { last: undefined, connectionError: undefined };
  const context = {
    host: new RecordingHost(),
    ports: { clock, files: new MemoryFiles(), commands: new FakeCommands() },
  };
  const at = { options: { wait: true }, seen, signal: stop.signal };
  return { clock, stop, seen, context, at };
}

describe('follow()', () => {
  test('reopens a broken stream, and returns when the node runs', async () => {
    const { clock, seen, context, at } = createFollower();
    const following = follow(context, createMachine([Stage.ASKING], [Stage.RUNNING]), at);
    await settle();
    expect(seen.connectionError).toBe(broken);
    await clock.advance(500);
    expect(await following).toMatchObject({ end: 'running' });
    expect(seen.connectionError).toBeUndefined();
  });

  test('ends at once with the code of a check of the machine that failed, but not with the error of an attempt', async () => {
    const { context, at } = createFollower();
    const problem = { code: 'preflight-swap', message: 'swap is on', fix: 'swapoff', exit: 'config' };
    const failed = { stage: Stage.ASKING, problem };
    const retried = { stage: Stage.ASKING, problem: { ...problem, code: 'rpc-unreachable' } };
    await expect(follow(context, createMachine([retried, failed]), at)).rejects.toMatchObject({
      code: 'preflight-swap',
      message: 'swap is on',
      fix: 'swapoff',
    });
    expect(await follow(context, createMachine([retried, Stage.RUNNING]), at)).toMatchObject({
      end: 'running',
    });
  });

  test('shows the fingerprint in a line of its own, and texts of others in one', async () => {
    const { context, at } = createFollower();
    const waiting = { stage: Stage.WAITING, clusterName: 'prod', nodeId: 'node-1', fingerprint: 'sha256:ab' };
    const sent = { ...waiting, message: 'approve it\n  fingerprint sha256:cd' };
    await follow(context, createMachine([sent, Stage.RUNNING]), at);
    expect(context.host.records).toContainEqual(
      expect.objectContaining({
        text: 'Waiting for cluster prod: approve it↵  fingerprint sha256:cd\n  fingerprint sha256:ab\n  join ID     node-1',
      }),
    );
  });

  test('keeps the connection error for the timeout message', async () => {
    const { clock, stop, seen, context, at } = createFollower();
    const outcome = expect(follow(context, createMachine([Stage.ASKING]), at)).rejects.toThrow('enough');
    await settle();
    await clock.advance(1_500);
    stop.abort(new Error('enough'));
    await outcome;
    expect(seen).toMatchObject({ last: { code: 'join-stage-asking' }, connectionError: broken });
  });
});
