/** Words that follow "password" in ordinary messages. A word that is missing here is removed from a log, and no more. */
const PROSE: ReadonlySet<string> = new Set(
  `about accepted access account admin after again agent allowed already also authentication based because been before
  being below between cannot change changed changes check checking command could database default denied deprecated
  disabled does during empty enabled entered entry error expired expires expiry failed failure field file files
  following found from generated generator given hash hashes have history incorrect input instead invalid known
  length login manager matches method mismatch missing must never none once only option over policy present prompt
  prompts protected protection provided quality received rejected request required requirements requires reset
  retrieved reuse rotated rotation secret set should store stored strength successfully that their them then this
  token too unknown until update updated used user user/password username using valid validation value via warning
  was were when which while will with without wrong your`.split(/\s+/),
);
const MAX_SHORT_WORD = 3;

/** Whether a word after "password" belongs to the sentence. */
export function isProse(text: string): boolean {
  const word = text.toLowerCase().replace(/[.,;:!?)\]}]+$/, '');
  if (word === '' || text.startsWith('<removed>') || /^(?:-|\w+=)/.test(text)) return true;
  return (word.length <= MAX_SHORT_WORD && /^[a-z]+$/.test(word)) || PROSE.has(word);
}

/** Whether a text has capitals, small letters and digits, as no name in Kubernetes has. */
export function looksRandom(text: string): boolean {
  return /\d/.test(text) && /[A-Z]/.test(text) && /[a-z]/.test(text);
}
