import { fromBinary } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { methodDefinition } from './codec.ts';

const { heartbeat } = Curator.method;

describe('methodDefinition()', () => {
  test('encodes a frozen response once for any number of clients', () => {
    const { responseSerialize } = methodDefinition(heartbeat);
    const message = Object.freeze({ intervalMs: 5n });
    const bytes = responseSerialize(message as never);
    expect(responseSerialize(message as never)).toBe(bytes);
    expect(fromBinary(heartbeat.output, bytes)).toMatchObject({ intervalMs: 5n });
  });

  test('encodes a response that is not frozen again for each client', () => {
    const { responseSerialize } = methodDefinition(heartbeat);
    const message = { intervalMs: 5n };
    const before = responseSerialize(message as never);
    message.intervalMs = 7n;
    expect(fromBinary(heartbeat.output, responseSerialize(message as never))).toMatchObject({
      intervalMs: 7n,
    });
    expect(fromBinary(heartbeat.output, before)).toMatchObject({ intervalMs: 5n });
  });
});
