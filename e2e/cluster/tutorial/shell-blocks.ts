/** One block of commands of a page, with the heading above it. */
export interface ShellBlock {
  /** The heading; "(1)", "(2)" … follow where a section has several blocks. */
  readonly title: string;
  readonly script: string;
}

/** The blocks of a Markdown page that are marked as `sh`, in their order. */
export function shellBlocks(page: string): readonly ShellBlock[] {
  const blocks: { heading: string; script: string }[] = [];
  let heading = '';
  let script: string[] | undefined;
  for (const line of page.split('\n')) {
    if (script !== undefined) {
      if (line === '```') {
        blocks.push({ heading, script: script.join('\n') });
        script = undefined;
      } else script.push(line);
    } else if (line === '```sh') script = [];
    else if (line.startsWith('#')) heading = line.replace(/^#+ /, '');
  }
  return blocks.map((block, index) => {
    const all = blocks.filter((each) => each.heading === block.heading);
    const number = blocks.slice(0, index + 1).filter((each) => each.heading === block.heading).length;
    return { title: all.length === 1 ? block.heading : `${block.heading} (${number})`, script: block.script };
  });
}
