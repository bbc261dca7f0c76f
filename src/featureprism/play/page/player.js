// Plays a list of frames that may still be growing.
class Player {
  static RATE = 24; // frames a second

  constructor({ button, slider, show }) {
    Object.assign(this, { button, slider, show, index: 0, last: 0, playing: false, due: 0 });
    button.addEventListener("click", () => this.playing ? this.pause() : this.play());
    slider.addEventListener("input", () => { this.pause(); this.go(Number(slider.value)); });
  }
  reset() { this.index = 0; this.last = -1; this.slider.max = 0; this.slider.value = 0; }
  grow(last) { this.last = last; this.slider.max = last; }
  go(index) {
    this.index = Math.max(0, Math.min(index, this.last));
    this.slider.value = this.index;
    this.show(this.index);
  }
  play() {
    if (this.playing) return;
    if (this.index >= this.last && this.complete) this.index = 0;
    this.playing = true;
    this.mark();
    this.due = performance.now();
    requestAnimationFrame(now => this.tick(now));
  }
  pause() { this.playing = false; this.mark(); this.stopped?.(); }
  mark() {
    this.button.textContent = this.playing ? "❚❚" : "▶";
    this.button.setAttribute("aria-label", this.playing ? "Pause" : "Play");
  }
  tick(now) {
    if (!this.playing) return;
    if (now >= this.due) {
      this.due = Math.max(now, this.due + 1000 / Player.RATE);
      if (this.index < this.last) this.go(this.index + 1);
      else if (this.complete) return this.pause();
    }
    requestAnimationFrame(then => this.tick(then));
  }
}
