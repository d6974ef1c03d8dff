import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHarness } from '../../machines/harness.ts';
import { eventually, podPinnedTo } from '../harness/node-shell.ts';
import { StoryCluster } from '../harness/story-cluster.ts';

const NAME = 'pressure';
const NODE = 'n2';
const IMAGES = '/var/lib/containerd';
const CTR = '/opt/cluster/bin/ctr --namespace k8s.io';
const UNUSED = 'example.test/unused:1';
const DISK_MIB = 3072;
const UNUSED_MIB = 200;
/** 3 % of the disk: less than the 5 % at which pods are evicted. */
const FULL_MIB = 92;
/** The kubelet looks at its disks every 10 seconds. */
const NOTICE_SECONDS = 120;
/** The kubelet keeps the condition for five minutes after the last time that the disk was full. */
const PASSED_SECONDS = 420;
/** Reads the lines "NAMESPACE/NAME UID PHASE" of the pods on the node. */
const PODS = `kubectl get pods -A --field-selector spec.nodeName=${NODE} -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {.metadata.uid} {.status.phase} {.status.reason}{"\\n"}{end}' | sort`;
const PRESSURE = `kubectl get node ${NODE} -o jsonpath='{.status.conditions[?(@.type=="DiskPressure")].status} {.status.conditions[?(@.type=="Ready")].status}'`;
/** An image with random content, so that no other image shares its layer. */
const IMPORT = `
cd "$(mktemp -d -p /run)"
mkdir content && head -c ${UNUSED_MIB}M /dev/urandom > content/random
tar -cf layer.tar -C content random && rm -r content
sha=$(sha256sum layer.tar | cut -d' ' -f1)
echo '{"architecture":"'$(dpkg --print-architecture)'","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:'$sha'"]}}' > config.json
echo '[{"Config":"config.json","RepoTags":["${UNUSED}"],"Layers":["layer.tar"]}]' > manifest.json
tar -cf image.tar manifest.json config.json layer.tar
${CTR} images import --local image.tar
rm -r "$PWD"`;

await test('a node whose disk for images is full keeps what it needs', async (story) => {
  await using bench = await createHarness();
  const cluster = new StoryCluster(bench, NAME);
  // The kubelet evicts pods before it deletes an image that it has seen for the first time within two minutes.
  await cluster.machines(
    { controlPlanes: 1, workers: 1 },
    (yaml) => `${yaml}\nextraArguments: { kubelet: { imageMinimumGCAge: 1s } }\n`,
  );
  await cluster.sh(NODE, `mkdir -p ${IMAGES} && mount -t tmpfs -o size=${DISK_MIB}m images ${IMAGES}`);
  await cluster.up();
  const images = async (): Promise<readonly string[]> =>
    (await cluster.sh(NODE, `${CTR} images ls -q | grep -v '^sha256:' | sort`)).split('\n');
  const pods = async (): Promise<readonly string[]> => (await cluster.sh('n1', PODS)).split('\n');
  /** Other pods may have come. */
  const stay = async (wanted: readonly string[]): Promise<void> => {
    const now = await pods();
    for (const pod of wanted) assert.ok(now.includes(pod), `${pod} of ${now.join(', ')}`);
  };
  /** Fills the disk until this many MiB are free. */
  const fill = (freeMib: number) =>
    cluster.sh(
      NODE,
      `free=$(df --output=avail -BM ${IMAGES} | tail -1 | tr -dc 0-9); head -c $((free - ${freeMib}))M /dev/zero >> ${IMAGES}/filler`,
    );
  await cluster.sh('n1', `kubectl apply -f - <<'END' >/dev/null\n${podPinnedTo(NODE)}\nEND`);
  await cluster.sh('n1', 'kubectl rollout status deployment visitor --timeout 120s >/dev/null');
  const needed = await images();
  const before = await pods();
  assert.ok(needed.length >= 4 && before.length >= 3, `${needed.join(', ')}; ${before.join(', ')}`);

  await story.test('unused images are deleted before any pod is evicted', async () => {
    await cluster.sh(NODE, IMPORT);
    assert.ok((await images()).includes(UNUSED));
    // At its start, and then every five minutes, the kubelet looks which images there are.
    await cluster.sh(NODE, 'systemctl restart kubelet');
    const health = `kubectl get --raw /api/v1/nodes/${NODE}/proxy/healthz || true`;
    await eventually(
      'the kubelet serves again',
      NOTICE_SECONDS,
      () => cluster.sh('n1', health),
      (now) => now === 'ok',
    );
    await fill(FULL_MIB);
    await eventually('the unused image is deleted', NOTICE_SECONDS, images, (now) => !now.includes(UNUSED));
    assert.deepEqual(await images(), needed);
    await stay(before);
  });

  await story.test('then pods of users are evicted, and those that the node needs stay', async () => {
    await fill(FULL_MIB);
    // Its program ends well when it is told to, so the pod may count as completed.
    const isEvicted = (now: readonly string[]) => !now.some((pod) => /^default\/.* Running/.test(pod));
    await eventually('the visitor is evicted', NOTICE_SECONDS, pods, isEvicted);
    await stay(before.filter((pod) => !pod.startsWith('default/')));
    assert.deepEqual(await images(), needed);
    assert.equal(await cluster.sh('n1', PRESSURE), 'True True');
  });

  await story.test('doctor names the node and its full disk', async () => {
    const { stdout } = await bench.cli('--workspace', await cluster.workspace(), 'doctor');
    assert.match(stdout, new RegExp(`${NODE}.*(disk|DiskPressure)`, 'i'));
  });

  await story.test('when there is space again, pods of users come back by themselves', async () => {
    await cluster.sh(NODE, `rm ${IMAGES}/filler`);
    await eventually(
      'the disk is no longer full',
      PASSED_SECONDS,
      () => cluster.sh('n1', PRESSURE),
      (now) => now === 'False True',
    );
    await cluster.sh('n1', 'kubectl rollout status deployment visitor --timeout 120s >/dev/null');
    assert.deepEqual(await images(), needed);
  });
});
