import { FILE_SYSTEM_OPTIONS, MOUNT_OPTIONS } from '../../../internal/statedisk/index.ts';

const METRIC = 'etcd_disk_wal_fsync_duration_seconds';
const P99 = 0.99;
/** Base64 of what is written: 1 KiB. */
const VALUE = Buffer.alloc(1024, 'x').toString('base64');
const BODY = `{"key":"${Buffer.from('key').toString('base64')}","value":"${VALUE}"}`;
const URL = 'http://127.0.0.1:2379';
const START_SECONDS = 60;

/** Where etcd writes in the guest. */
const MOUNT = '/run/etcd';
const LOG = '/run/etcd.log';
/** Between two parts of the output. */
const NEXT = '::next';

/**
 * The lines of a shell that make a file system on the device, start etcd on it, and write one key after the other with one client. They
 * print etcd's metrics before and after it, with a line between them.
 */
export function etcdCommand(device: string, seconds: number): string {
  // etcd answers pipelined requests one after the other. Each body ends with the line break that `yes` adds.
  const request = `POST /v3/kv/put HTTP/1.1\\r\\nHost: etcd\\r\\nContent-Length: ${BODY.length + 1}\\r\\n\\r\\n${BODY}`;
  // On a small disk, mkfs would choose smaller blocks, but not on one whose sectors have 4 KiB.
  return `mkfs.ext4 ${FILE_SYSTEM_OPTIONS.join(' ')} -b 4096 ${device} > /run/mkfs.log 2>&1 || { cat /run/mkfs.log; exit 1; }
mkdir -p ${MOUNT} && mount ${MOUNT_OPTIONS.join(' ')} ${device} ${MOUNT} || exit 1
setsid etcd --data-dir=${MOUNT}/data --log-level=error > ${LOG} 2>&1 &
pid=$!
for _ in $(seq ${START_SECONDS}); do wget -q -O - ${URL}/health 2> /dev/null | grep -q '"true"' && break; sleep 1; done
kill -0 $pid || { cat ${LOG}; exit 1; }
read_metrics() { wget -q -O - ${URL}/metrics | grep ^${METRIC}; }
read_metrics
echo ${NEXT}
yes "$(printf '${request}')" | timeout ${seconds} nc 127.0.0.1 2379 > /run/answers
read_metrics
echo ${NEXT}
grep -o 'HTTP/1.1 200' /run/answers | wc -l
kill $pid
for _ in $(seq ${START_SECONDS}); do kill -0 $pid 2> /dev/null || break; sleep 1; done
umount ${MOUNT}`;
}

/** The fsyncs of etcd's write-ahead log during the writes. */
export interface EtcdRun {
  readonly fsyncs: number;
  readonly writes: number;
  readonly meanMs: number;
  /** Between the bounds of a bucket, as `histogram_quantile` of Prometheus computes it; bounds are powers of two. */
  readonly p99Ms: number;
}

/** Parses what `etcdCommand()` prints. @throws Error if etcd has written nothing */
export function parseEtcd(output: string): EtcdRun {
  const [before, after, answers] = output.split(NEXT);
  if (before === undefined || after === undefined || answers === undefined)
    throw new Error(`etcd did not run: ${output.slice(-500)}`);
  const [first, last] = [parseHistogram(before), parseHistogram(after)];
  const fsyncs = last.count - first.count;
  const writes = Number.parseInt(answers, 10);
  if (!(fsyncs > 0) || !(writes > 0))
    throw new Error(`etcd made ${fsyncs} fsyncs for ${answers.trim()} writes`);
  const buckets = last.buckets.map(({ boundSeconds, count }, index) => ({
    boundSeconds,
    count: count - (first.buckets[index]?.count ?? 0),
  }));
  return {
    ...{ fsyncs, writes },
    meanMs: ((last.sumSeconds - first.sumSeconds) / fsyncs) * 1e3,
    p99Ms: quantileOf(buckets, P99) * 1e3,
  };
}

/** Observations up to a bound, which is Infinity for the last bucket. */
interface Bucket {
  readonly boundSeconds: number;
  readonly count: number;
}

interface Histogram {
  readonly buckets: readonly Bucket[];
  readonly sumSeconds: number;
  readonly count: number;
}

/** @throws Error if it is incomplete */
function parseHistogram(text: string): Histogram {
  const buckets = [...text.matchAll(new RegExp(`^${METRIC}_bucket\\{le="([^"]+)"\\} (\\S+)$`, 'gm'))].map(
    ([, bound, count]) => ({
      boundSeconds: bound === '+Inf' ? Number.POSITIVE_INFINITY : Number(bound),
      count: Number(count),
    }),
  );
  const sumSeconds = Number(new RegExp(`^${METRIC}_sum (\\S+)$`, 'm').exec(text)?.[1]);
  const count = Number(new RegExp(`^${METRIC}_count (\\S+)$`, 'm').exec(text)?.[1]);
  const isWhole =
    buckets.at(-1)?.boundSeconds === Number.POSITIVE_INFINITY && buckets.at(-1)?.count === count;
  if (!isWhole || Number.isNaN(sumSeconds))
    throw new Error(`etcd has no whole ${METRIC}: ${text.slice(0, 200)}`);
  return { buckets, sumSeconds, count };
}

/** The quantile of a histogram with cumulative counts, interpolated as Prometheus does. */
export function quantileOf(buckets: readonly Bucket[], quantile: number): number {
  const rank = (buckets.at(-1)?.count ?? 0) * quantile;
  const index = buckets.findIndex(({ count }) => count >= rank);
  const [bucket, below] = [buckets[index], buckets[index - 1]];
  const [low, seen] = [below?.boundSeconds ?? 0, below?.count ?? 0];
  if (bucket === undefined) return NaN;
  if (bucket.boundSeconds === Number.POSITIVE_INFINITY) return low;
  return low + (bucket.boundSeconds - low) * ((rank - seen) / (bucket.count - seen));
}
