#include "pipeline/paint.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "image/resize.h"
#include "pipeline/conditioning.h"
#include "pipeline/tiles.h"
#include "pipeline/weight_source.h"
#include "sample/noise_source.h"

namespace danqing {

namespace {

std::span<const std::byte> bytes(std::span<const float> values) { return std::as_bytes(values); }

bool finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

// [image, channel, cell] <-> [image, cell, channel]; `into` may have more channels a cell than `count`.
void to_channels_last(std::span<const float> from, int64_t images, int64_t channels, int64_t cells,
                      std::span<float> into, int64_t stride, int64_t first_channel) {
  for (int64_t n = 0; n < images; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < cells; ++i)
        into[static_cast<size_t>((n * cells + i) * stride + first_channel + c)] =
            from[static_cast<size_t>((n * channels + c) * cells + i)];
}

class Painter {
 public:
  Painter(const Job& job, Device& device, const PaintHooks& hooks)
      : job_(job),
        hooks_(hooks),
        run_(device, job.program, job.plan, weight_source(job.model->layout, *job.adapters, job.threads)),
        device_(device) {
    const Canvas& c = job.canvas;
    factor_ = job.model->vae.factor();
    height_ = c.height / factor_, width_ = c.width / factor_, cells_ = height_ * width_;
    channels_ = job.model->vae.latent_channels;
    one_ = static_cast<size_t>(channels_ * cells_);
    run_.on_load = [this](const std::string& component, double share) {
      phase_ = "load " + component;
      report(static_cast<int64_t>(share * 100), 100);
      check_cancelled();
    };
    run_.on_op = [this](double share) {
      within_ = share;
      check_cancelled();
      report(step_, total_);
    };
  }

  Painting paint() {
    encode_text();
    if (job_.canvas.encoded_pictures) encode_pictures();
    prepare();
    denoise();
    Painting out;
    out.images = decode();
    out.trace = run_.trace();
    return out;
  }

 private:
  std::span<float> host(const std::string& name) {
    const auto raw = run_.host_buffer("host " + name);
    return {reinterpret_cast<float*>(raw.data()), raw.size() / sizeof(float)};
  }

  void check_cancelled() const {
    if (hooks_.cancel && hooks_.cancel->load()) throw Error(Fault::cancelled, "stopped as asked");
  }

  // Seconds by the plan of all that is done and of all there is give the share; the clock corrects the rest.
  void report(int64_t step, int64_t total) {
    step_ = step, total_ = total;
    if (!hooks_.progress) return;
    double done = 0, all = job_.plan.cost.seconds.value;
    for (const LoadTrace& l : run_.trace().loads)
      for (const LoadPlan& planned : job_.plan.loads)
        done += l.component == planned.component ? planned.cost.seconds.value : 0;
    for (size_t i = 0; i < job_.plan.phases.size(); ++i)
      done += job_.plan.phases[i].cost.seconds.value *
              (static_cast<double>(run_.trace().phases[i].times) + (job_.plan.phases[i].name == phase_ ? within_ : 0));
    const double share = all > 0 ? std::min(1.0, done / all) : 0, spent = run_.elapsed().value;
    const double left = share > 0.02 ? spent / share * (1 - share) : all - done;
    hooks_.progress({phase_, step, total, share, Seconds(std::max(0.0, left)), device_.allocated()});
  }

  void execute(const Counters& counters = {}) {
    run_.execute(counters);
    within_ = 0;
  }

  void begin(const std::string& phase) {
    check_cancelled();
    run_.begin(phase);
    phase_ = phase, within_ = 0;
    report(0, 1);
  }

  void encode_text() {
    begin("encode");
    const auto& encoders = job_.model->text;
    for (size_t e = 0; e < encoders.size(); ++e) {
      const std::vector<int32_t> ids = token_ids(job_, e), ends = end_rows(job_, e);
      run_.write("ids of " + encoders[e].component, std::as_bytes(std::span(ids)));
      if (encoders[e].pooled) run_.write("ends of " + encoders[e].component, std::as_bytes(std::span(ends)));
    }
    execute();
    for (size_t e = 0, column = 0; e < encoders.size(); ++e) {
      read_states(e, static_cast<int64_t>(column));
      column += static_cast<size_t>(encoders[e].clip.width);
      if (encoders[e].pooled) run_.read("pooled of " + encoders[e].component, std::as_writable_bytes(host("pooled")));
    }
    if (job_.zero_negative) {  // their rows come first
      std::ranges::fill(host("context").first(host("context").size() / 2), 0.f);
      if (job_.model->unet.label) std::ranges::fill(host("pooled").first(host("pooled").size() / 2), 0.f);
    }
    run_.end();
  }

  // Weighed, into the encoder's columns of the context.
  void read_states(size_t e, int64_t column) {
    const TextEncoder& encoder = job_.model->text[e];
    const size_t text = kChunkTokens * static_cast<size_t>(encoder.clip.width);
    const auto states = host("states").first(static_cast<size_t>(job_.canvas.text_rows) * text);
    run_.read("states of " + encoder.component, std::as_writable_bytes(states));
    if (!job_.canvas.skip_negative) {
      const auto negatives = host("negatives").first(states.size());
      run_.read("negative states of " + encoder.component, std::as_writable_bytes(negatives));
      std::ranges::copy(negatives.first(static_cast<size_t>(job_.prompts * job_.canvas.chunks) * text), states.begin());
    }
    if (!finite(states)) throw Error(Fault::numeric, "encode: the text encoder gave a value that is not finite");
    weigh_states(job_, e, states);
    put_beside(states, encoder.clip.width, host("context"), job_.model->unet.context, column);
  }

  // For every pixel, and for every latent cell.
  void read_mask_of_request() {
    const int w = static_cast<int>(job_.canvas.width), h = static_cast<int>(job_.canvas.height);
    const Mask mask = read_mask(job_.request.mask);
    pixel_mask_ = mask.width == w && mask.height == h ? mask : resize_nearest(mask, w, h);
    for (uint8_t& v : pixel_mask_.value) v = v >= 128 ? 255 : 0;
    const Mask cells = resize_nearest(pixel_mask_, static_cast<int>(width_), static_cast<int>(height_));
    for (uint8_t v : cells.value) mask_.push_back(v ? 1.f : 0.f);
  }

  // At the request's size. Read before the phase begins, so that a large file is gone when the encoder's memory comes.
  Image initial_picture() const {
    const int w = static_cast<int>(job_.canvas.width), h = static_cast<int>(job_.canvas.height);
    Image init = read_image(job_.request.init);
    return init.width == w && init.height == h ? init : resize_lanczos(init, w, h);
  }

  // The initial picture, and for inpainting models the masked one, through the VAE's encoder.
  void encode_pictures() {
    if (!job_.request.mask.empty()) read_mask_of_request();
    const Image init = initial_picture();
    begin("encode_image");
    const auto picture = host("original"), moments = host("moments");
    to_signed(init, picture);
    const size_t size = moments.size() / static_cast<size_t>(job_.canvas.encoded_pictures);
    for (int64_t i = 0; i < job_.canvas.encoded_pictures; ++i) {
      if (i == 1)  // the masked one comes last
        for (size_t p = 0; p < pixel_mask_.value.size(); ++p)
          for (size_t c = 0; c < 3; ++c) picture[p * 3 + c] *= pixel_mask_.value[p] ? 0.f : 1.f;
      run_.write("original", bytes(picture));
      execute();
      const auto into = moments.subspan(static_cast<size_t>(i) * size, size);
      run_.read("moments", std::as_writable_bytes(into));
      if (!finite(into)) throw Error(Fault::numeric, "encode_image: the VAE's encoder gave a value that is not finite");
      report(i + 1, job_.canvas.encoded_pictures);
    }
    run_.end();
  }

  // Latents of encoded picture `which`, drawn from the posterior with the image's own noise or taken at its mean.
  void image_latents(size_t which, NoiseGenerator& noise, std::span<float> out) {
    const size_t size = 2 * one_;
    const auto moments = host("moments").subspan(which * size, size);
    const bool drawn = job_.habits.sample_posterior;
    if (drawn) noise.draw(out);
    const VaeConfig& vae = job_.model->vae;
    const auto channels = static_cast<size_t>(channels_), cells = static_cast<size_t>(cells_);
    for (size_t c = 0; c < channels; ++c)
      for (size_t i = 0; i < cells; ++i) {
        const float mean = moments[i * 2 * channels + c];
        const float log_variance = std::clamp(moments[i * 2 * channels + channels + c], -30.f, 20.f);
        float& value = out[c * cells + i];
        value = drawn ? mean + std::exp(0.5f * log_variance) * value : mean;
        value = (value - static_cast<float>(vae.shift)) * static_cast<float>(vae.scale);
      }
  }

  void prepare() {
    begin("prepare");
    const auto rows = job_.model->unet.label ? static_cast<size_t>(job_.canvas.all_prompts()) : 1;
    std::vector<float> times;
    for (double t : job_.sampler->timesteps()) times.insert(times.end(), rows, static_cast<float>(t));
    times.resize(std::max(rows, times.size()));  // a picture that is not repainted at all still prepares
    run_.write("timesteps", bytes(times));
    run_.write("context", bytes(host("context")));
    if (job_.model->unet.label) {
      const auto pooled = host("pooled"), label = host("label");
      const size_t from = pooled.size() / rows, to = label.size() / rows;
      for (size_t i = 0; i < rows; ++i)
        write_label(pooled.subspan(i * from, from), size_numbers(job_.request), label.subspan(i * to, to));
      run_.write("label", bytes(label));
    }
    execute();
    run_.end();
  }

  void denoise() {
    begin("denoise");
    for (int64_t b = 0; b < job_.canvas.repeats; ++b) denoise_batch(b);
    run_.end();
  }

  std::span<float> batch_latents(int64_t batch) {
    const size_t size = one_ * static_cast<size_t>(job_.canvas.images);
    return host("latents").subspan(static_cast<size_t>(batch) * size, size);
  }

  uint64_t seed(int64_t batch, int64_t image) const {
    return *job_.request.seed + static_cast<uint64_t>(batch * job_.canvas.images + image);
  }

  // Order of draws as diffusers: posterior of the image, start noise, posterior of the masked image.
  void start_batch(int64_t batch, std::span<float> latents, std::span<float> noise) {
    generators_.clear();
    for (int64_t i = 0; i < job_.canvas.images; ++i)
      generators_.push_back(
          noise_generator(*job_.request.rng == "cpu" ? NoiseKind::torch : NoiseKind::philox, seed(batch, i)));
    const bool from_picture = !job_.request.init.empty();
    const bool pure =
        from_picture && job_.request.strength == 1 && !mask_.empty() && job_.habits.convention == Convention::diffusers;
    const bool nine = job_.model->inpainting();
    const auto pictures = from_picture ? host("image latents") : std::span<float>();
    for (int64_t i = 0; i < job_.canvas.images; ++i) {
      const size_t at = static_cast<size_t>(i) * one_;
      NoiseGenerator& draw = *generators_[static_cast<size_t>(i)];
      if (from_picture && !(pure && nine)) image_latents(0, draw, pictures.subspan(at, one_));
      draw.draw(noise.subspan(at, one_));
      if (nine) image_latents(1, draw, pictures.subspan(pictures.size() / 2 + at, one_));
    }
    if (from_picture && !pure)
      job_.sampler->start(pictures.first(latents.size()), noise, latents);
    else
      job_.sampler->start(noise, latents);
  }

  void denoise_batch(int64_t batch) {
    const auto latents = batch_latents(batch), noise = host("noise");
    start_batch(batch, latents, noise);
    evaluation_ = 0;
    const int64_t total = job_.sampler->evaluations();
    const Network network = [&](std::span<const float> input, double, std::span<float> output) {
      check_cancelled();
      evaluate(input, output);
      ++evaluation_;
      report(batch * total + evaluation_, total * job_.canvas.repeats);
    };
    const NoiseSource fresh = noise_source(batch);
    const bool keeps = !mask_.empty() && !job_.model->inpainting();
    const OnStep on_step = [&](int step, int, std::span<float> x) {
      if (keeps) keep_masked(step, x, noise);
      if (hooks_.after_step) hooks_.after_step(step, x);
    };
    job_.sampler->run(latents, network, fresh, on_step, host("sampler"));
  }

  NoiseSource noise_source(int64_t batch) const {
    if (job_.habits.convention == Convention::diffusers || !sampler_named(*job_.request.sampler).sampler->brownian)
      return stream_noise(generators_);
    std::vector<uint64_t> seeds;
    for (int64_t i = 0; i < job_.canvas.images; ++i) seeds.push_back(seed(batch, i));
    return brownian_noise(seeds, one_);
  }

  // Where the mask is black the original stays, noised to the level after the step.
  void keep_masked(int step, std::span<float> x, std::span<const float> noise) {
    const auto original = host("image latents").first(x.size());
    const auto noised = host("prediction").first(x.size());  // free between evaluations
    job_.sampler->noised_original(step, original, noise, noised);
    for (size_t i = 0; i < x.size(); ++i)
      if (const float m = mask_[i % static_cast<size_t>(cells_)]; m == 0) x[i] = noised[i];
  }

  void evaluate(std::span<const float> input, std::span<float> output) {
    const Canvas& c = job_.canvas;
    const bool both = c.guided && !c.in_turn;
    const auto noisy = host("input"), predicted = host("prediction");
    const int64_t depth = job_.model->unet.in_channels;
    const size_t half = static_cast<size_t>(c.images * cells_ * depth);
    to_channels_last(input, c.images, channels_, cells_, noisy, depth, 0);
    if (depth > channels_) add_inpainting_channels(noisy.first(half), depth);
    if (both) std::copy_n(noisy.begin(), half, noisy.begin() + static_cast<std::ptrdiff_t>(half));
    run_.write("noisy", bytes(noisy));
    Counters counters;
    counters[Counter::step] = evaluation_;
    const size_t size = c.in_turn && c.guided ? predicted.size() / 2 : predicted.size();
    for (int64_t h = 0; h < (c.guided && c.in_turn ? 2 : 1); ++h) {
      counters[Counter::half] = h;
      execute(counters);
      run_.read("prediction", std::as_writable_bytes(predicted.subspan(static_cast<size_t>(h) * size, size)));
    }
    if (!finite(predicted))
      throw Error(Fault::numeric, "denoise: the U-Net gave a value that is not finite at step " +
                                      std::to_string(evaluation_ + 1) + " of " +
                                      std::to_string(job_.sampler->evaluations()) + "; try --precision f32");
    mix(predicted, output);
  }

  void add_inpainting_channels(std::span<float> rows, int64_t depth) {
    const auto masked = host("image latents").subspan(host("image latents").size() / 2);
    to_channels_last(masked, job_.canvas.images, channels_, cells_, rows, depth, channels_ + 1);
    for (size_t i = 0; i < rows.size() / static_cast<size_t>(depth); ++i)
      rows[i * static_cast<size_t>(depth) + static_cast<size_t>(channels_)] = mask_[i % static_cast<size_t>(cells_)];
  }

  // Guidance: away from the negative prompt's prediction (rows of the first half), back to one plane a channel.
  void mix(std::span<const float> predicted, std::span<float> output) const {
    const auto scale = static_cast<float>(*job_.request.cfg);
    const size_t channels = static_cast<size_t>(channels_), cells = static_cast<size_t>(cells_),
                 half = predicted.size() / 2;
    for (size_t n = 0; n < static_cast<size_t>(job_.canvas.images); ++n)
      for (size_t c = 0; c < channels; ++c)
        for (size_t i = 0; i < cells; ++i) {
          const size_t at = (n * cells + i) * channels + c;
          const float value =
              job_.guided ? predicted[at] + scale * (predicted[half + at] - predicted[at]) : predicted[at];
          output[(n * channels + c) * cells + i] = value;
        }
  }

  std::vector<Image> decode() {
    begin("decode");
    const Canvas& c = job_.canvas;
    std::vector<Image> images;
    for (int64_t i = 0; i < c.images * c.repeats; ++i) {
      Image image = decode_one(host("latents").subspan(static_cast<size_t>(i) * one_, one_), i);
      if (hooks_.picture)
        hooks_.picture(i, image);
      else
        images.push_back(std::move(image));
    }
    run_.end();
    return images;
  }

  Image decode_one(std::span<const float> latent, int64_t number) {
    const Canvas& c = job_.canvas;
    const int64_t tile = c.tile ? c.tile : std::max(height_, width_);
    const TileGrid grid(height_, width_, tile, factor_);
    const auto part = host("tile");
    std::vector<float> cut(static_cast<size_t>(grid.tile_height() * grid.tile_width() * channels_));
    std::span<float> whole = c.tile ? host("picture") : std::span<float>();
    std::ranges::fill(whole, 0.f);
    for (int64_t t = 0; t < grid.count(); ++t) {
      check_cancelled();
      grid.cut(t, latent, channels_, cut);
      run_.write("latent", bytes(cut));
      execute();
      run_.read("picture", std::as_writable_bytes(part));
      if (!finite(part))
        throw Error(Fault::numeric, "decode: the VAE gave a value that is not finite; try --precision f32");
      if (c.tile) grid.blend(t, part, whole);
      report(number * grid.count() + t + 1, c.images * c.repeats * grid.count());
    }
    if (c.tile) grid.normalise(whole);
    return from_signed(c.tile ? whole.first(static_cast<size_t>(3 * c.width * c.height)) : part,
                       static_cast<int>(c.width), static_cast<int>(c.height));
  }

  const Job& job_;
  const PaintHooks& hooks_;
  Run run_;
  Device& device_;
  int64_t factor_, height_, width_, cells_, channels_;
  size_t one_;                                               // values of one image's latents
  std::vector<std::shared_ptr<NoiseGenerator>> generators_;  // of the batch that is painted, one an image
  Mask pixel_mask_;
  std::vector<float> mask_;  // one a latent cell: 1 = repaint
  int64_t evaluation_ = 0;
  std::string phase_;
  int64_t step_ = 0, total_ = 1;
  double within_ = 0;  // share of the phase's run that is going on
};

}  // namespace

Painting paint(const Job& job, Device& device, const PaintHooks& hooks) { return Painter(job, device, hooks).paint(); }

}  // namespace danqing
