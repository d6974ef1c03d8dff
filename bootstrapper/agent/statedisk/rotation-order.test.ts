import { describe, expect, test } from '@jest/globals';
import {
  diskRotationStatement,
  ed25519PubKeyFrom,
  generateEd25519Key,
  signEd25519,
  voucherStatement,
} from '../../../internal/crypto/index.ts';
import { currentValue } from '../../../internal/event/index.ts';
import { FakeClock, settle, superviseForTest } from '../../../internal/testing/index.ts';
import { DiskQueue, isShareMoved } from '../../disk/index.ts';
import { createFakeRoleValues } from '../../roleserve/fake-role-values.ts';
import { DiskKeys, rotatedKeysRunnable, verifyRotationOrder } from './rotation-order.ts';

const keyOf = (pem: ReturnType<typeof generateEd25519Key>): Uint8Array =>
  ed25519PubKeyFrom(pem) ?? new Uint8Array();
const owner = generateEd25519Key();
const second = generateEd25519Key();
const foreign = generateEd25519Key();
const NOW_MS = 1_800_000_000_000;
const node = { clusterId: 'c0ffee', nodeId: 'node-1', ownerKeys: [keyOf(owner)], nowMs: NOW_MS };
const content = {
  ...{ uuid: 'e69a2e66-2bc8-4695-b852-75f129bb9e54', seal: new Uint8Array(32).fill(7) },
  ...{ recipients: ['age1b', 'age1a'], threshold: 2 },
};
const expiresMs = BigInt(NOW_MS);

/** The order that an owner signs for this node, and how it arrives. */
function orderBy(
  by = owner,
  signedFor: Partial<typeof content & typeof node & { readonly expiresMs: bigint }> = {},
) {
  const { uuid, seal: nodeSeal, recipients: recoveryRecipients, threshold: recoveryThreshold } = content;
  const signature = signEd25519(by, diskRotationStatement({ ...node, ...content, expiresMs, ...signedFor }));
  const pair = { ownerPubKey: keyOf(by), signature, vouchers: [] };
  return { ...pair, uuid, nodeSeal, recoveryRecipients, recoveryThreshold, expiresMs };
}

describe('verifyRotationOrder()', () => {
  test('accepts what an owner has signed, with the recipients in any order, and names it by what was signed', () => {
    const order = orderBy();
    const verified = verifyRotationOrder(order, node);
    expect(verified).toMatchObject(content);
    const reordered = { ...order, recoveryRecipients: ['age1a', 'age1b'] };
    expect(verifyRotationOrder(reordered as never, node).digest).toEqual(verified.digest);
    const other = { ...content, seal: new Uint8Array(32).fill(8) };
    const later = { ...orderBy(owner, other), nodeSeal: other.seal };
    expect(verifyRotationOrder(later as never, node).digest).not.toEqual(verified.digest);
  });

  test('accepts an owner for whom an owner of the provisioning has vouched, and nobody without a voucher', () => {
    const statement = voucherStatement({ clusterId: node.clusterId, ownerPubKey: keyOf(second) });
    const voucher = (by: typeof owner) => ({ by: keyOf(by), signature: signEd25519(by, statement) });
    const order = orderBy(second);
    expect(verifyRotationOrder({ ...order, vouchers: [voucher(owner)] } as never, node)).toMatchObject(
      content,
    );
    for (const vouchers of [[], [voucher(foreign)]])
      expect(() => verifyRotationOrder({ ...order, vouchers } as never, node)).toThrow(
        expect.objectContaining({ code: 'disk-rotation-unauthorized' }),
      );
  });

  test.each([
    ['another cluster', { clusterId: 'c1' }],
    ['another node', { nodeId: 'node-2' }],
    ['another disk', { uuid: 'e69a2e66-2bc8-4695-b852-000000000000' }],
    ['another seal', { seal: new Uint8Array(32) }],
    ['other recipients', { recipients: ['age1a'] }],
    ['another threshold', { threshold: 1 }],
    ['another time limit', { expiresMs: expiresMs + 1n }],
  ])('refuses an order that was signed for %s', (_, signedFor) => {
    expect(() => verifyRotationOrder(orderBy(owner, signedFor) as never, node)).toThrow(
      expect.objectContaining({ code: 'disk-rotation-unauthorized' }),
    );
  });

  test('refuses an order that was held back until after its time limit', () => {
    const late = { ...node, nowMs: NOW_MS + 1 };
    expect(() => verifyRotationOrder(orderBy() as never, late)).toThrow(
      expect.objectContaining({ code: 'disk-rotation-refused' }),
    );
  });

  test('refuses an order without a signature', () => {
    const unsigned = { ...orderBy(), signature: new Uint8Array(64) };
    expect(() => verifyRotationOrder(unsigned as never, node)).toThrow(
      expect.objectContaining({ code: 'disk-rotation-unauthorized' }),
    );
  });
});

describe('DiskKeys', () => {
  test('refuses an order while other work on the record of the disk runs or waits', async () => {
    const queue = new DiskQueue();
    const keys = new DiskKeys({ queue } as never);
    let finish = (): void => undefined;
    const running = queue.run(() => new Promise<void>((resolve) => (finish = resolve)));
    await settle();
    const { signal } = new AbortController();
    await expect(keys.rotate({} as never, signal)).rejects.toMatchObject({ code: 'disk-share-moving' });
    expect(currentValue(keys.rotated)).toBe(false);
    finish();
    await running;
    expect(queue.isBusy).toBe(false);
  });
});

describe('rotatedKeysRunnable()', () => {
  test('has the agent start again once the answer has left, and not before a rotation', async () => {
    const clock = new FakeClock();
    const queue = new DiskQueue();
    const keys = new DiskKeys({ queue } as never);
    const ended: unknown[] = [];
    const reads = createFakeRoleValues();
    reads.localRoles.set(new Set());
    const options = {
      clock,
      reads,
      diskShare: { queue },
      diskKeys: keys,
      end: (why: unknown) => ended.push(why),
    };
    await using running = superviseForTest(rotatedKeysRunnable(options as never), { clock });
    void running;
    await settle();
    await clock.advance(10_000);
    expect(ended).toEqual([]);
    // Ports that fail: a rotation that failed late may have left keys in memory.
    await expect(keys.rotate({} as never, new AbortController().signal)).rejects.toThrow();
    await settle();
    expect([currentValue(keys.rotated), ended]).toEqual([true, []]);
    await clock.advance(1_000);
    await settle();
    expect(ended.map(isShareMoved)).toEqual([true]);
  });
});
