import { describe, expect, test } from '@jest/globals';
import { FakeClock, settle } from '../testing/index.ts';
import { FakeTpm } from '../testing/tpm/fake-tpm.ts';
import { BatchQuoter, quoteExtraData, type BatchedQuote } from './batch-quoter.ts';
import { leafHash, rootFromProof } from './merkle.ts';
import { parseQuoteAttest } from './structures/attest.ts';
import { Tpm } from './tpm.ts';

const never = new AbortController().signal;
const dataOf = (index: number): Uint8Array => Uint8Array.of(index, index >> 8);

function setUp(quoteMs?: number) {
  const clock = new FakeClock();
  const fake = new FakeTpm({ clock, ...(quoteMs === undefined ? {} : { quoteMs }) });
  const tpm = new Tpm({ source: fake, clock });
  return { clock, fake, tpm, quoter: new BatchQuoter({ tpm, pcrs: [0, 1, 2] }) };
}

/** Whether a quote is bound to this data. */
function isFor(quote: BatchedQuote, data: Uint8Array): boolean {
  const root = rootFromProof(leafHash(data), quote);
  const expected = quoteExtraData({
    root,
    size: quote.size,
    attachment: quote.attachment,
    hasLockCounter: false,
  });
  return Buffer.compare(expected, parseQuoteAttest(quote.attest).extraData) === 0;
}

describe('BatchQuoter', () => {
  test('gives a single caller a quote of its own', async () => {
    const { fake, quoter } = setUp();
    const quote = await quoter.quote(dataOf(1), never);
    expect([quote.size, quote.path.length, fake.quotes]).toEqual([1, 0, 1]);
    expect([isFor(quote, dataOf(1)), isFor(quote, dataOf(2))]).toEqual([true, false]);
  });

  test('serves 64 callers on a slow TPM (100 ms) with two quotes and one Merkle path each', async () => {
    const { clock, fake, quoter } = setUp(100);
    const startMs = clock.nowMs();
    const first = quoter.quote(dataOf(0), never);
    await settle();
    const others = Array.from({ length: 63 }, (_, index) => quoter.quote(dataOf(index + 1), never));
    await clock.advance(100);
    await clock.advance(100);
    const quotes = await Promise.all([first, ...others]);
    expect(fake.quotes).toBe(2);
    expect(quotes.every((quote, index) => isFor(quote, dataOf(index)))).toBe(true);
    expect(quotes.some((quote) => isFor(quote, dataOf(999)))).toBe(false);
    expect(clock.nowMs() - startMs).toBeLessThanOrEqual((64 * 100) / 7);
  });

  test('rejects an aborted caller and serves the others', async () => {
    const { clock, quoter } = setUp(100);
    const first = quoter.quote(dataOf(0), never);
    await settle();
    const abort = new AbortController();
    const gone = quoter.quote(dataOf(1), abort.signal);
    const stays = quoter.quote(dataOf(2), never);
    abort.abort(new Error('enough'));
    await expect(gone).rejects.toThrow('enough');
    await clock.advance(200);
    expect((await first).size).toBe(1);
    expect((await stays).size).toBe(1);
  });

  test('completes the quote for the others when one caller aborts', async () => {
    const { clock, quoter } = setUp(100);
    const abort = new AbortController();
    const gone = quoter.quote(dataOf(1), abort.signal);
    const stays = quoter.quote(dataOf(2), never);
    await settle();
    abort.abort(new Error('enough'));
    await expect(gone).rejects.toThrow('enough');
    await clock.advance(200);
    expect(isFor(await stays, dataOf(2))).toBe(true);
  });

  test('sends no command when all callers have aborted', async () => {
    const { fake, tpm, quoter } = setUp();
    const gate = Promise.withResolvers<void>();
    const busy = tpm.use(never, () => gate.promise);
    const abort = new AbortController();
    const gone = quoter.quote(dataOf(1), abort.signal);
    abort.abort(new Error('enough'));
    await expect(gone).rejects.toThrow('enough');
    gate.resolve();
    await busy;
    await settle();
    expect(fake.quotes).toBe(0);
    expect(isFor(await quoter.quote(dataOf(2), never), dataOf(2))).toBe(true);
  });

  test('rejects all callers of a batch when the TPM fails, and serves the next batch', async () => {
    const { fake, quoter } = setUp();
    fake.script.push(0, 0, 0, 0, 0x101); // before the quote: 2 × capabilities, create the AK, read PCRs
    const results = await Promise.allSettled([
      quoter.quote(dataOf(1), never),
      quoter.quote(dataOf(2), never),
    ]);
    expect(results.map((each) => each.status)).toEqual(['rejected', 'rejected']);
    expect(isFor(await quoter.quote(dataOf(3), never), dataOf(3))).toBe(true);
  });

  test('quotes again when a PCR is extended between reading and quoting, and fails after three attempts', async () => {
    const { fake, quoter } = setUp();
    let moves = 1;
    fake.beforeQuote = () => {
      if (moves-- > 0) fake.extend(1, new Uint8Array(32));
    };
    const quote = await quoter.quote(dataOf(1), never);
    expect([fake.quotes, quote.pcrValues.get(1)]).toEqual([2, fake.pcrs.get(1)]);
    moves = 100;
    await expect(quoter.quote(dataOf(1), never)).rejects.toMatchObject({ code: 'tpm-pcrs-moving' });
  });

  test('derives the attestation key once for each connection', async () => {
    const { fake, quoter } = setUp();
    await quoter.quote(dataOf(1), never);
    await quoter.quote(dataOf(2), never);
    expect(fake.commands.filter((code) => code === 0x0131)).toHaveLength(1);
  });

  test('binds the quote to the attachment', async () => {
    const { tpm } = setUp();
    const quoter = new BatchQuoter({ tpm, pcrs: [0], attachment: async () => Uint8Array.of(1, 2, 3) });
    const quote = await quoter.quote(dataOf(1), never);
    expect(isFor(quote, dataOf(1))).toBe(true);
    expect(isFor({ ...quote, attachment: Uint8Array.of(1, 2, 4) }, dataOf(1))).toBe(false);
  });

  test('refuses more waiting callers than a Merkle tree can have leaves', async () => {
    const { tpm, quoter } = setUp();
    const gate = Promise.withResolvers<void>();
    const busy = tpm.use(never, () => gate.promise);
    const waiting = Array.from({ length: 1024 }, (_, index) => quoter.quote(dataOf(index), never));
    await expect(quoter.quote(dataOf(1), never)).rejects.toMatchObject({ code: 'tpm-busy' });
    gate.resolve();
    await busy;
    expect((await Promise.all(waiting)).map((quote) => quote.size)).toEqual(waiting.map(() => 1024));
  });
});
